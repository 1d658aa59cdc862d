package plugin

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"
)

// The formats of output, as kubectl calls them; "" is for people.
const (
	asJSON = "json"
	asYAML = "yaml"
	asWide = "wide"
	asName = "name"
)

// output is the flag -o, of a command that knows some formats.
type output struct {
	format string
	known  []string
}

func (o *output) bind(cmd *cobra.Command, known ...string) {
	o.known = known
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "Output format: "+strings.Join(known, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) check() error {
	if o.format != "" && !slices.Contains(o.known, o.format) {
		return fmt.Errorf("there is no output format %q: write one of %s", o.format, strings.Join(o.known, ", "))
	}
	return nil
}

// structured tells whether the output is for programs.
func (o *output) structured() bool { return o.format == asJSON || o.format == asYAML }

// apiVersion is that of what is printed as JSON and YAML.
const apiVersion = "plugin.gangline.dev/v1alpha1"

// list is a list as it is printed.
type list[T any] struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Items      []T    `json:"items"`
}

// print prints a list as JSON or YAML.
func print[T any](out io.Writer, format, kind string, items []T) error {
	v := list[T]{apiVersion, kind, append([]T{}, items...)}
	data, err := json.MarshalIndent(v, "", "    ")
	if format == asYAML {
		data, err = yaml.Marshal(v)
	}
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	_, err = fmt.Fprintln(out, strings.TrimRight(string(data), "\n"))
	return err
}

// table prints rows in columns, as kubectl does. Rows that come later, as of a watch, keep
// the columns' widths where they can.
type table struct {
	out    io.Writer
	widths []int
}

func (t *table) print(rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+3))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(t.out, b.String())
	return err
}

// onTerminal tells whether a person reads the output, and how wide the terminal is.
func onTerminal(out io.Writer) (width int, ok bool) {
	file, isFile := out.(*os.File)
	if !isFile {
		return 0, false
	}
	width, _, err := term.GetSize(int(file.Fd()))
	return width, err == nil
}

// widest is how wide a paragraph is at most.
const widest = 100

// wrap breaks a paragraph into lines for a terminal.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
