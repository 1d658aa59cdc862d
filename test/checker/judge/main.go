// Command judge has the checker look at the history of a storm again.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/gangline/gangline/test/checker"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: judge HISTORY.json")
		os.Exit(2)
	}
	violations, err := judge(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(2)
	}
	for _, v := range violations {
		fmt.Println(v)
	}
	if len(violations) > 0 {
		os.Exit(1)
	}
}

func judge(path string) ([]checker.Violation, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var history checker.History
	if err := json.Unmarshal(data, &history); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return checker.Check(history), nil
}
