package broker

// links chains an entry into one list.
type links struct{ prev, next *entry }

// list is an intrusive doubly linked list: no allocation per element, and an
// entry leaves the middle in O(1). at picks which links of an entry it uses.
type list struct {
	head, tail *entry
	len        int
	at         func(*entry) *links
}

func logLinks(e *entry) *links   { return &e.log }
func queueLinks(e *entry) *links { return &e.queue }

func (l *list) pushBack(e *entry) {
	k := l.at(e)
	k.prev, k.next = l.tail, nil
	if l.tail == nil {
		l.head = e
	} else {
		l.at(l.tail).next = e
	}
	l.tail = e
	l.len++
}

func (l *list) pushFront(e *entry) {
	k := l.at(e)
	k.prev, k.next = nil, l.head
	if l.head == nil {
		l.tail = e
	} else {
		l.at(l.head).prev = e
	}
	l.head = e
	l.len++
}

// insert adds e before mark; a nil mark is the end.
func (l *list) insert(e, mark *entry) {
	if mark == nil {
		l.pushBack(e)
		return
	}
	k, m := l.at(e), l.at(mark)
	if m.prev == nil {
		l.pushFront(e)
		return
	}
	k.prev, k.next = m.prev, mark
	l.at(m.prev).next = e
	m.prev = e
	l.len++
}

func (l *list) remove(e *entry) {
	k := l.at(e)
	if k.prev == nil {
		l.head = k.next
	} else {
		l.at(k.prev).next = k.next
	}
	if k.next == nil {
		l.tail = k.prev
	} else {
		l.at(k.next).prev = k.prev
	}
	k.prev, k.next = nil, nil
	l.len--
}
