package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const figures = `{"figures": [
  {"measurement": "start", "what": "a gang starts", "unit": "s", "ratio": [1.5, 1.7, 1.6], "goal": {"of": "ratio", "most": 2}},
  {"measurement": "load, 0 running pods", "what": "memory", "unit": "MiB", "ours": [60, 61, 59]},
  {"measurement": "load, 20 running pods in gangs of 10", "what": "memory", "unit": "MiB", "ours": [75]},
  {"measurement": "load, 20 running pods in gangs of 10", "what": "lag", "unit": "s", "ours": [0.1]}
]}`

func TestFiguresAreDrawn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	if err := os.WriteFile(file, []byte(figures), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{file}); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(strings.TrimSuffix(file, "json") + "svg")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(svg), "a gang starts") || strings.Contains(string(svg), "memory") {
		t.Error("the picture is to have what has a ratio, and nothing else")
	}
	load, err := os.ReadFile(filepath.Join(filepath.Dir(file), "load.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(load), "memory (MiB)") || strings.Contains(string(load), "lag") {
		t.Error("the load is to have what there is for several numbers of pods, and nothing else")
	}
	for _, name := range []string{"figures.png", "load.png"} {
		if png, err := os.ReadFile(filepath.Join(filepath.Dir(file), name)); err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
			t.Error("there is to be a PNG too", err)
		}
	}
}

func TestNothingToDrawIsNoError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	if err := os.WriteFile(file, []byte(`{"figures": [{"what": "memory", "ours": [1]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{file}); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeDrawnIsAnError(t *testing.T) {
	for text, want := range map[string]string{"{": "reading the figures of"} {
		file := filepath.Join(t.TempDir(), "figures.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error %v does not say %q", text, err, want)
		}
	}
	if err := run(nil); err == nil {
		t.Error("without a file there is to be an error")
	}
}
