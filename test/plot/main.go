// Command plot draws the figures of the benchmarks: for each that has something to be
// compared with the ratio to the bare tool, from the lowest round to the highest, with the
// goal (figures.svg), and what running pods cost against their number (load.svg). It reads
// the JSON that test/bench writes and writes the pictures beside it, as PNG too.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("give the file with the figures")
	}
	figures, err := read(args[0])
	if err != nil {
		return err
	}
	dir := filepath.Dir(args[0])
	if ratios := withRatio(figures); len(ratios) > 0 {
		picture, height, err := drawing(ratios)
		if err != nil {
			return err
		}
		if err := save(dir, "figures", func(c vg.CanvasSizer) { picture.Draw(draw.New(c)) }, height); err != nil {
			return err
		}
	}
	if panels := panelsOf(figures); len(panels) > 0 {
		paint, height, err := loadDrawing(panels)
		if err != nil {
			return err
		}
		return save(dir, "load", paint, height)
	}
	return nil
}

// width is that of all pictures.
const width = 22 * vg.Centimeter

// save writes a picture in both forms.
func save(dir, name string, paint func(vg.CanvasSizer), height font.Length) error {
	for _, kind := range []string{"svg", "png"} {
		path := filepath.Join(dir, name+"."+kind)
		canvas, err := draw.NewFormattedCanvas(width, height, kind)
		if err != nil {
			return fmt.Errorf("drawing %s: %w", path, err)
		}
		paint(canvas)
		var picture bytes.Buffer
		if _, err := canvas.WriteTo(&picture); err != nil {
			return fmt.Errorf("drawing %s: %w", path, err)
		}
		if err := os.WriteFile(path, picture.Bytes(), 0o644); err != nil {
			return fmt.Errorf("drawing %s: %w", path, err)
		}
	}
	return nil
}

// figure is what of the benchmarks' is drawn.
type figure struct {
	Measurement, What, Unit string
	Ours, Ratio             []float64
	Goal                    *struct {
		Of          string
		Least, Most float64
	}
}

// read returns all figures.
func read(path string) ([]figure, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the figures: %w", err)
	}
	var report struct{ Figures []figure }
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("reading the figures of %s: %w", path, err)
	}
	return report.Figures, nil
}

func withRatio(figures []figure) []figure {
	return slices.DeleteFunc(slices.Clone(figures), func(f figure) bool { return len(f.Ratio) == 0 })
}

// The colours of what is measured and of the goals.
var (
	blue = color.RGBA{R: 0x1f, G: 0x6f, B: 0xb2, A: 0xff}
	red  = color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}
	grey = color.Gray{Y: 0xbb}
)

// drawing has a line for each figure, the first at the top.
func drawing(figures []figure) (*plot.Plot, font.Length, error) {
	p := plot.New()
	p.Title.Text = "Gangline next to the bare tool, in the same run (1 is equal; the mark is the median, red the goal)"
	p.Title.TextStyle.Font.Size = 10
	p.X.Label.Text = "ratio"
	p.X.Min = 0
	var names []string
	for i, f := range figures {
		y := float64(len(figures) - 1 - i)
		names = append(names, f.What)
		low, high := slices.Min(f.Ratio), slices.Max(f.Ratio)
		p.X.Max = max(p.X.Max, high*1.05)
		if err := stroke(p, plotter.XYs{{X: low, Y: y}, {X: high, Y: y}}, blue, 3); err != nil {
			return nil, 0, err
		}
		mark, err := plotter.NewScatter(plotter.XYs{{X: median(f.Ratio), Y: y}})
		if err != nil {
			return nil, 0, err
		}
		mark.Color, mark.Shape, mark.Radius = blue, draw.CircleGlyph{}, 4
		p.Add(mark)
		if f.Goal != nil && f.Goal.Of == "ratio" {
			at := max(f.Goal.Least, f.Goal.Most)
			p.X.Max = max(p.X.Max, at*1.05)
			if err := stroke(p, plotter.XYs{{X: at, Y: y - 0.35}, {X: at, Y: y + 0.35}}, red, 2); err != nil {
				return nil, 0, err
			}
		}
	}
	if err := stroke(p, plotter.XYs{{X: 1, Y: -0.5}, {X: 1, Y: float64(len(figures)) - 0.5}}, grey, 1); err != nil {
		return nil, 0, err
	}
	slices.Reverse(names)
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.5, float64(len(figures))-0.5
	return p, font.Length(len(figures))*0.8*vg.Centimeter + 3*vg.Centimeter, nil
}

func stroke(p *plot.Plot, points plotter.XYs, colour color.Color, width font.Length) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return fmt.Errorf("drawing a line: %w", err)
	}
	line.Color, line.Width = colour, width
	p.Add(line)
	return nil
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
