package dataset

import (
	"context"
	"fmt"
	"slices"
)

// Report is what a Check has found.
type Report struct {
	Counts
	// Sources are the complete identities.
	Sources []Source
	// Problems are the first bad rows and duplicates that were left out, for
	// people; all are in the file Options.Rejects.
	Problems []error
}

const (
	// showEvery is the number of entries after which progress is shown anew.
	showEvery = 1000
	// maxProblems is the number of problems that a report holds.
	maxProblems = 10
)

// Check reads everything without the payloads of files, and returns the first
// thing that is not allowed: a bad row over Options.MaxBadRows, or the second
// item of an ID. It names both places of a duplicate. Memory does not grow
// with the number of items, but for 16 bytes a duplicate that is to be
// skipped. show is called now and then.
func (d *Dataset) Check(ctx context.Context, show func(Counts)) (Report, error) {
	d.skip = nil
	var report Report
	rejects := &rejectsFile{path: d.opts.Rejects}
	defer rejects.abandon()
	ids := newIDSet(d.temp)
	defer ids.close()
	for entry, err := range d.Survey(ctx) {
		if err != nil {
			return report, err
		}
		report.Counts = entry.Position.Counts
		switch {
		case entry.Problem != nil:
			err = report.leaveOut(rejects, entry)
		default:
			err = ids.add(entry.ItemID, report.Read)
		}
		if err != nil {
			return report, err
		}
		if report.Read%showEvery == 0 {
			show(report.Counts)
		}
	}
	duplicates, err := ids.duplicates()
	if err == nil && len(duplicates) > 0 {
		err = d.settle(ctx, duplicates, &report, rejects)
	}
	if err != nil {
		return report, err
	}
	show(report.Counts)
	for i, s := range d.sources {
		d.identities[i] = s.identity()
	}
	report.Sources = d.Sources()
	return report, rejects.finish()
}

func (r *Report) leaveOut(rejects *rejectsFile, entry Entry) error {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, entry.Problem)
	}
	return rejects.add(entry)
}

// settle refuses duplicates, or has them skipped, and names both places of
// each.
func (d *Dataset) settle(ctx context.Context, duplicates []duplicate, report *Report, rejects *rejectsFile) error {
	if d.opts.OnDuplicate == RefuseDuplicates {
		return d.refuse(ctx, duplicates)
	}
	d.skip = duplicates
	places := &placeFinder{d: d}
	for entry, err := range d.Survey(ctx) {
		if err != nil {
			return err
		}
		places.saw(entry.Position)
		report.Counts = entry.Position.Counts
		i, found := d.skipped(entry.Position.Counts.Read)
		if !found {
			continue
		}
		entry.Problem = &BadRow{At: entry.Position, Err: fmt.Errorf("%w, which %s has", entry.Problem, places.of(d.skip[i].first)), Raw: entry.Data}
		if err := report.leaveOut(rejects, entry); err != nil {
			return err
		}
	}
	return nil
}

// refuse names the first duplicate, and says how many there are.
func (d *Dataset) refuse(ctx context.Context, duplicates []duplicate) error {
	at := duplicates[0]
	var first Entry
	for entry, err := range d.Survey(ctx) {
		if err != nil {
			return err
		}
		switch entry.Position.Counts.Read {
		case at.first:
			first = entry
		case at.number:
			if entry.ItemID != first.ItemID {
				return fmt.Errorf("%s: the file was changed while it was read", entry.Position)
			}
			return fmt.Errorf("%w %q: at %s and at %s (%d in all); give each item an ID of its own, name another field with --id-field, or leave the later ones out with --on-duplicate skip",
				ErrDuplicate, entry.ItemID, first.Position, entry.Position, len(duplicates))
		}
	}
	return fmt.Errorf("%w: the dataset was changed while it was read", ErrDuplicate)
}

// placeFinder names an entry by its number, in memory that grows with the
// number of files of rows alone.
type placeFinder struct {
	d *Dataset
	// starts are the numbers of the first entries of sources.
	starts []start
}

type start struct {
	number int64
	name   string
	rows   bool
}

// saw is told of every entry in turn.
func (p *placeFinder) saw(at Position) {
	for len(p.starts) <= at.Source {
		s := start{number: at.Counts.Read, name: p.d.identities[len(p.starts)].Name}
		if source, is := p.d.sources[len(p.starts)].(rowSource); is {
			s.name, s.rows = source.file.name, true
		}
		p.starts = append(p.starts, s)
	}
}

func (p *placeFinder) of(number int64) string {
	i, exact := slices.BinarySearchFunc(p.starts, number, func(s start, n int64) int { return int(s.number - n) })
	if !exact {
		i--
	}
	// Of sources without entries the last begins with this number too.
	for i+1 < len(p.starts) && p.starts[i+1].number <= number {
		i++
	}
	s := p.starts[i]
	if s.rows {
		return fmt.Sprintf("%s row %d", s.name, number-s.number+1)
	}
	return fmt.Sprintf("file %d of %s", number-s.number+1, s.name)
}
