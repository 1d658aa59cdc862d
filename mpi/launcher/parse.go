package launcher

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// UnknownOptionError names an option that is in no table: nobody can tell where
// the program begins behind it.
type UnknownOptionError struct{ Option string }

func (e *UnknownOptionError) Error() string {
	return fmt.Sprintf("the option %s is not known to the launch mode srun; leave it out, or use the program's own launcher by the annotation gangline.dev/mpi-launch: ssh", e.Option)
}

// RefusedOptionError names an option that asks for what the launch mode srun
// does not do.
type RefusedOptionError struct{ Option, Why string }

func (e *RefusedOptionError) Error() string {
	return fmt.Sprintf("the option %s is not possible in the launch mode srun: %s; leave it out, or use the program's own launcher by the annotation gangline.dev/mpi-launch: ssh", e.Option, e.Why)
}

// Parse reads the words after "mpirun". An option that is understood but not
// possible here is a *RefusedOptionError; with lenient it is passed over, for
// whoever only wants to know which hosts and how many ranks are asked for.
func Parse(args []string, lenient bool) (Request, error) {
	p := parser{options: options(), lenient: lenient}
	for more := true; more; {
		var err error
		if args, more, err = p.program(args); err != nil {
			return p.request, err
		}
	}
	if p.request.Informs {
		return p.request, nil
	}
	for i, program := range p.request.Programs {
		if len(program.Argv) == 0 {
			return p.request, errors.New("no program is given")
		}
		p.request.Programs[i].Exports = append(append([]Export{}, p.global...), program.Exports...)
		if program.Dir == "" {
			p.request.Programs[i].Dir = p.dir
		}
	}
	if n := len(p.request.Programs); n > 1 {
		for i, program := range p.request.Programs {
			if program.Ranks == 0 {
				return p.request, fmt.Errorf("program %d of %d (%s) does not say how many ranks it has; give each its -n", i+1, n, program.Argv[0])
			}
		}
	}
	return p.request, nil
}

// parser reads one command line.
type parser struct {
	options map[string]option
	request Request
	now     Program
	global  []Export // of -genv and its like
	dir     string   // of -gwdir
	lenient bool
	word    string // the option as it was written
}

// program reads one program with its options, up to a ":", and tells what comes
// after that.
func (p *parser) program(args []string) (rest []string, more bool, err error) {
	p.now = Program{}
	defer func() { p.request.Programs = append(p.request.Programs, p.now) }()
	for len(args) > 0 {
		word := args[0]
		if word == ":" {
			return args[1:], true, nil
		}
		if len(word) < 2 || word[0] != '-' {
			break
		}
		if word == "--" {
			args = args[1:]
			break
		}
		if args, err = p.option(word, args[1:]); err != nil {
			return nil, false, err
		}
	}
	for i, word := range args {
		if word == ":" {
			return args[i+1:], true, nil
		}
		p.now.Argv = append(p.now.Argv, word)
	}
	return nil, false, nil
}

// option reads an option and returns the words after it.
func (p *parser) option(word string, rest []string) ([]string, error) {
	name := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
	name, value, assigned := strings.Cut(name, "=")
	o, known := p.options[name]
	if !known {
		return nil, &UnknownOptionError{word}
	}
	p.word = word
	var values []string
	if assigned {
		p.word, _, _ = strings.Cut(word, "=")
		if o.values != 1 {
			return nil, &UnknownOptionError{word}
		}
		values = []string{value}
	} else {
		if len(rest) < o.values {
			return nil, fmt.Errorf("the option %s needs %d more words", word, o.values-len(rest))
		}
		values, rest = rest[:o.values], rest[o.values:]
	}
	switch {
	case o.refused != "":
		return rest, p.refuse(o.refused)
	case o.ignored != "":
		p.ignore(o.ignored)
		return rest, nil
	}
	if err := o.read(p, values); err != nil {
		if _, refused := errors.AsType[*RefusedOptionError](err); refused {
			return rest, err
		}
		return nil, fmt.Errorf("the option %s: %w", strings.Join(append([]string{p.word}, values...), " "), err)
	}
	return rest, nil
}

// refuse says why the option at hand is not possible, unless that does not
// matter.
func (p *parser) refuse(why string) error {
	if p.lenient {
		return nil
	}
	return &RefusedOptionError{p.word, why}
}

func (p *parser) ignore(why string) {
	p.request.Ignored = append(p.request.Ignored, p.word+": "+why)
}

func count(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is no number of ranks", s)
	}
	return n, nil
}
