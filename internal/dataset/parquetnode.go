package dataset

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// kind says how the values of a node become JSON.
type kind int

const (
	kindLeaf   kind = iota // a value
	kindStruct             // an object with a member for each child
	kindList               // an array; the only child is its element
	kindMap                // an object; the children are key and value
)

// node is a column, or a part of one, as the file's schema has it.
type node struct {
	name     string
	kind     kind
	optional bool
	// bare says that the node is a list because its field may be repeated, and
	// not because the schema calls it a list.
	bare bool
	// def is the definition level from which on the node is there, listDef the
	// one from which on a list or map has elements, and listRep the repetition
	// level of its elements after the first.
	def, listDef, listRep int
	children              []*node
	// leaves are all stored columns at or below the node.
	leaves []*leaf
	// text turns a stored value of a leaf to JSON.
	text func(dst []byte, v parquet.Value) ([]byte, error)
}

// leaf is a stored column, and where reading it stands.
type leaf struct {
	path   string
	index  int
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	buffer [256]parquet.Value
	at, n  int
}

// peek returns the next value, or io.EOF at the end of the row group.
func (l *leaf) peek() (parquet.Value, error) {
	for l.at == l.n {
		if l.values == nil {
			page, err := l.pages.ReadPage()
			if err != nil {
				return parquet.Value{}, err
			}
			l.page, l.values = page, page.Values()
		}
		n, err := l.values.ReadValues(l.buffer[:])
		l.at, l.n = 0, n
		if n > 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return parquet.Value{}, err
		}
		parquet.Release(l.page)
		l.page, l.values = nil, nil
	}
	return l.buffer[l.at], nil
}

func (l *leaf) close() {
	if l.page != nil {
		parquet.Release(l.page)
	}
	if l.pages != nil {
		_ = l.pages.Close() // they were only read
	}
	l.pages, l.page, l.values, l.at, l.n = nil, nil, nil, 0, 0
}

// append appends the node's value in the current row, or in the current element
// of the list that it is in, and moves past it. A value that JSON cannot hold
// is kept in bad; an error means that nothing more can be read.
func (n *node) append(dst []byte, bad *error) ([]byte, error) {
	if n.optional {
		first, err := n.leaves[0].peek()
		if err != nil {
			return dst, err
		}
		if first.DefinitionLevel() < n.def {
			return append(dst, "null"...), n.pass()
		}
	}
	switch n.kind {
	case kindStruct:
		dst = append(dst, '{')
		for i, child := range n.children {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendJSON(dst, child.name), ':')
			var err error
			if dst, err = child.append(dst, bad); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	case kindList, kindMap:
		return n.appendList(dst, bad)
	}
	l := n.leaves[0]
	v, err := l.peek()
	if err != nil {
		return dst, err
	}
	l.at++
	out, err := n.text(dst, v)
	if err != nil {
		if *bad == nil {
			*bad = fmt.Errorf("column %s: %w", l.path, err)
		}
		return append(dst, "null"...), nil
	}
	return out, nil
}

// pass moves all columns below over the one entry that says that the node is
// not there.
func (n *node) pass() error {
	for _, l := range n.leaves {
		if _, err := l.peek(); err != nil {
			return err
		}
		l.at++
	}
	return nil
}

// appendList appends the elements of a list or map.
func (n *node) appendList(dst []byte, bad *error) ([]byte, error) {
	open, end := byte('['), byte(']')
	if n.kind == kindMap {
		open, end = '{', '}'
	}
	dst = append(dst, open)
	first, err := n.leaves[0].peek()
	if err != nil {
		return dst, err
	}
	if first.DefinitionLevel() < n.listDef {
		return append(dst, end), n.pass()
	}
	for {
		if dst, err = n.appendElement(dst, bad); err != nil {
			return dst, err
		}
		dst = bounded(dst, bad)
		next, err := n.leaves[0].peek()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return dst, err
		}
		if next.RepetitionLevel() < n.listRep {
			break
		}
		dst = append(dst, ',')
	}
	return append(dst, end), nil
}

// bounded makes a row bad that is too large, and keeps only its begin: a few
// bytes of a file can stand for a list of a billion elements.
func bounded(dst []byte, bad *error) []byte {
	if len(dst) <= maxRow {
		return dst
	}
	if *bad == nil {
		*bad = fmt.Errorf("the row has more than %d bytes; no more are read", maxRow)
	}
	return dst[:maxRow]
}

func (n *node) appendElement(dst []byte, bad *error) ([]byte, error) {
	if n.kind == kindList {
		return n.children[0].append(dst, bad)
	}
	from := len(dst)
	dst, err := n.children[0].append(dst, bad)
	if err != nil {
		return dst, err
	}
	if dst[from] != '"' { // a name in JSON is a text
		key := string(dst[from:])
		dst = appendJSON(dst[:from], key)
	}
	dst = append(dst, ':')
	if len(n.children) == 1 { // a set: Parquet lets a map have no values
		return append(dst, "null"...), nil
	}
	return n.children[1].append(dst, bad)
}

// schemaTree makes the nodes of a schema, which the file has as a list in the
// order of a walk.
func schemaTree(schema []format.SchemaElement) (*node, error) {
	t := treeMaker{schema: schema}
	root, err := t.make("", 0, 0)
	if err == nil && t.next != len(schema) {
		err = fmt.Errorf("the schema has %d elements, and a tree of %d", len(schema), t.next)
	}
	return root, err
}

type treeMaker struct {
	schema []format.SchemaElement
	next   int
	leaves int
}

// maxDepth keeps a broken schema from using up the stack.
const maxDepth = 200

func (t *treeMaker) make(path string, def, rep int) (*node, error) {
	if t.next >= len(t.schema) || strings.Count(path, ".") > maxDepth {
		return nil, errors.New("the schema is broken")
	}
	e := t.schema[t.next]
	t.next++
	n := &node{name: e.Name}
	repeated := false
	if t.next > 1 { // the root stands for the row
		path = strings.TrimPrefix(path+"."+e.Name, ".")
		switch e.RepetitionType.V {
		case format.Optional:
			n.optional = true
			def++
		case format.Repeated:
			repeated = true
			def++
			rep++
		}
	}
	n.def = def
	if err := t.fill(n, e, path, def, rep); err != nil {
		return nil, err
	}
	if repeated {
		return &node{name: n.name, kind: kindList, bare: true, listDef: def, listRep: rep, children: []*node{n}, leaves: n.leaves}, nil
	}
	return n, nil
}

// fill makes what is below the node.
func (t *treeMaker) fill(n *node, e format.SchemaElement, path string, def, rep int) error {
	if !e.NumChildren.Valid || e.NumChildren.V == 0 && e.Type.Valid {
		n.leaves = []*leaf{{path: path, index: t.leaves}}
		t.leaves++
		var err error
		if n.text, err = textOf(e); err != nil {
			return fmt.Errorf("column %s: %w", path, err)
		}
		return nil
	}
	n.kind = kindStruct
	for range e.NumChildren.V {
		child, err := t.make(path, def, rep)
		if err != nil {
			return err
		}
		n.children = append(n.children, child)
		n.leaves = append(n.leaves, child.leaves...)
	}
	if len(n.leaves) == 0 {
		return fmt.Errorf("column %q is a group without fields, which is not read", path)
	}
	n.annotate(e)
	return nil
}

// annotate takes away the levels that lists and maps have in the schema and not
// in what they mean: https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#nested-types
func (n *node) annotate(e format.SchemaElement) {
	if len(n.children) != 1 || !n.children[0].bare {
		return
	}
	inner := n.children[0]
	element := inner.children[0]
	switch {
	case isConverted(e, deprecated.List) || isLogical[*format.ListType](e):
		// Older writers have no level between list and element.
		if element.kind == kindStruct && len(element.children) == 1 && element.name != "array" && element.name != n.name+"_tuple" {
			element = element.children[0]
		}
		n.children = []*node{element}
		n.kind = kindList
	case isConverted(e, deprecated.Map) || isConverted(e, deprecated.MapKeyValue) || isLogical[*format.MapType](e):
		if element.kind != kindStruct || len(element.children) > 2 || element.children[0].kind != kindLeaf {
			return // nothing that could be the names of an object
		}
		n.children = element.children
		n.kind = kindMap
	default:
		return
	}
	n.listDef, n.listRep = inner.listDef, inner.listRep
}

func isConverted(e format.SchemaElement, t deprecated.ConvertedType) bool {
	return e.ConvertedType.Valid && e.ConvertedType.V == t
}

func isLogical[T any](e format.SchemaElement) bool {
	_, is := any(e.LogicalType.Value).(T)
	return is
}
