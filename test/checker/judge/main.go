// Command judge has the checker look at the history of a storm again.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/gangline/gangline/test/checker"
)

func main() {
	if len(os.Args) != 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "usage: judge HISTORY.json, as a storm leaves it; the exit code is 1 if something is wrong")
		os.Exit(2)
	}
	history, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(2)
	}
	fmt.Println(checker.Tally(history))
	violations := checker.Check(history)
	for _, v := range violations {
		fmt.Println(v)
	}
	if len(violations) > 0 {
		os.Exit(1)
	}
}

func read(path string) (history checker.History, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return history, err
	}
	if err := json.Unmarshal(data, &history); err != nil {
		return history, fmt.Errorf("reading %s: %w", path, err)
	}
	return history, nil
}
