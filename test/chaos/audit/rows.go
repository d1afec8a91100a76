package audit

// rows is G3: one row an item, and FAILED never over OK. No excuse.
func (c *checker) rows() {
	current := map[Key]Row{}
	for i := range c.events {
		e := &c.events[i]
		if e.Kind != Committed {
			continue
		}
		before, found := current[e.Item]
		switch {
		case found && before.Shard != e.Row.Shard:
			c.report("G3", e, "the item has a second row: shard %d, after shard %d", e.Row.Shard, before.Shard)
		case found && before.Status == "OK" && e.Row.Status != "OK":
			c.report("G3", e, "%s (%s) by %s replaced the OK row of %s", e.Row.Status, e.Row.Class, e.Row.Worker, before.Worker)
		}
		current[e.Item] = e.Row
	}
}

// verdicts is G6 and G7: whatever was written is what the item deserves. No
// excuse: the disturbances of a run kill fewer processes than the verdict
// runner_crash asks for, so that no healthy item may ever be FAILED.
func (c *checker) verdicts() {
	for i := range c.events {
		e := &c.events[i]
		switch {
		case e.Kind == Committed:
			c.verdict(e)
		case e.Kind == DeadLettered, e.Kind == Dropped && !e.Dead:
			c.report("G6", e, "message %d left the subscription without an ack (%s)", e.Message, e.Kind)
		case e.Kind == Published && e.Dead && e.Foreign == "":
			c.report("G6", e, "the item is on the dead-letter topic: %s", e.Reason)
		}
	}
}

func (c *checker) verdict(e *Event) {
	want, known := c.facts.Items[e.Item]
	got := e.Row
	switch {
	case !known:
		c.report("G8", e, "a row of an item that was never published")
	case got.Status == "FAILED" && want.Status == "OK":
		c.report("G6", e, "a healthy item became FAILED: %s: %s", got.Class, got.Message)
	case want.Status != "" && got.Status != want.Status:
		c.report("G6", e, "the row is %s, want %s %s", got.Status, want.Status, want.Class)
	case got.Status == "FAILED" && got.Class != want.Class:
		c.report("G6", e, "FAILED as %s, want %s: %s", got.Class, want.Class, got.Message)
	case got.Status == "OK" && got.Output != want.Output:
		c.report("G7", e, "the output is %s, want %s", got.Output, want.Output)
	case got.ModelVersion != c.facts.ModelVersion:
		c.report("G7", e, "the row says model_version %q, want %q", got.ModelVersion, c.facts.ModelVersion)
	}
}
