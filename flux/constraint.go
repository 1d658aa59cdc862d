package flux

// Constraint is a condition on jobs or nodes, as RFC 31 writes it: one operator with its
// operands. The zero value has none, and is true of all.
type Constraint map[string][]any

// And is true where all conditions are.
func And(conditions ...Constraint) Constraint { return combine("and", conditions) }

// Or is true where any condition is.
func Or(conditions ...Constraint) Constraint { return combine("or", conditions) }

// Not is true where none of the conditions is.
func Not(conditions ...Constraint) Constraint { return combine("not", conditions) }

func combine(operator string, conditions []Constraint) Constraint {
	operands := make([]any, len(conditions))
	for i, c := range conditions {
		operands[i] = c
	}
	return Constraint{operator: operands}
}

func of[T any](operator string, values []T) Constraint {
	operands := make([]any, len(values))
	for i, v := range values {
		operands[i] = v
	}
	return Constraint{operator: operands}
}

// Users is true of jobs of any of these users.
func Users(uids ...int) Constraint { return of("userid", uids) }

// Names is true of jobs that have any of these names.
func Names(names ...string) Constraint { return of("name", names) }

// Queues is true of jobs in any of these queues.
func Queues(names ...string) Constraint { return of("queue", names) }

// InStates is true of jobs in any of a set of states.
func InStates(s State) Constraint { return of("states", []State{s}) }

// InResults is true of jobs that ended in any of a set of ways.
func InResults(r Outcome) Constraint { return of("results", []Outcome{r}) }

// Properties is true of nodes that have all of these properties; "^name" is true of those
// that do not have one.
func Properties(names ...string) Constraint { return of("properties", names) }

// Hosts is true of jobs or nodes of any of these hosts, each of which may be a list ("n[0-3]").
func Hosts(hosts ...string) Constraint { return of("hostlist", hosts) }
