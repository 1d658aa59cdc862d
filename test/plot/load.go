package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// panel is one quantity against the number of pods.
type panel struct {
	name   string
	points []point
}

type point struct {
	pods              float64
	low, middle, high float64
}

// loadOf finds the number of pods in a measurement's name.
var loadOf = regexp.MustCompile(`^load, (\d+) running pods`)

// panelsOf are all quantities of the load, in the order of the figures. One with a single
// number of pods shows nothing and has none.
func panelsOf(figures []figure) []panel {
	var panels []panel
	for _, f := range figures {
		match := loadOf.FindStringSubmatch(f.Measurement)
		if match == nil || len(f.Ours) == 0 {
			continue
		}
		pods, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			continue
		}
		name := fmt.Sprintf("%s (%s)", f.What, f.Unit)
		i := slices.IndexFunc(panels, func(p panel) bool { return p.name == name })
		if i < 0 {
			i, panels = len(panels), append(panels, panel{name: name})
		}
		panels[i].points = append(panels[i].points, point{pods, slices.Min(f.Ours), median(f.Ours), slices.Max(f.Ours)})
	}
	for _, p := range panels {
		slices.SortFunc(p.points, func(a, b point) int { return int(a.pods - b.pods) })
	}
	return slices.DeleteFunc(panels, func(p panel) bool { return len(p.points) < 2 })
}

// columns of panels are side by side, each panelHeight high.
const (
	columns     = 2
	panelHeight = 6 * vg.Centimeter
)

// loadDrawing has a panel for each quantity.
func loadDrawing(panels []panel) (paint func(vg.CanvasSizer), height font.Length, err error) {
	rows := (len(panels) + columns - 1) / columns
	plots := make([][]*plot.Plot, rows)
	for i := range plots {
		plots[i] = make([]*plot.Plot, columns)
	}
	for i, p := range panels {
		if plots[i/columns][i%columns], err = p.draw(); err != nil {
			return nil, 0, err
		}
	}
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: vg.Centimeter, PadY: vg.Centimeter, PadTop: 5, PadBottom: 5, PadLeft: 5, PadRight: 10}
	paint = func(c vg.CanvasSizer) {
		for i, row := range plot.Align(plots, tiles, draw.New(c)) {
			for j, canvas := range row {
				if plots[i][j] != nil {
					plots[i][j].Draw(canvas)
				}
			}
		}
	}
	return paint, font.Length(rows) * panelHeight, nil
}

// draw has a mark for each number of pods, from the lowest round to the highest.
func (p panel) draw() (*plot.Plot, error) {
	picture := plot.New()
	picture.Title.Text = p.name
	picture.Title.TextStyle.Font.Size = 8
	picture.X.Label.Text = "pods"
	picture.X.Label.TextStyle.Font.Size = 8
	picture.X.Min, picture.Y.Min = 0, 0
	var middle plotter.XYs
	for _, at := range p.points {
		middle = append(middle, plotter.XY{X: at.pods, Y: at.middle})
		picture.Y.Max = max(picture.Y.Max, at.high*1.1)
		if err := stroke(picture, plotter.XYs{{X: at.pods, Y: at.low}, {X: at.pods, Y: at.high}}, blue, 3); err != nil {
			return nil, err
		}
	}
	picture.X.Max = middle[len(middle)-1].X * 1.02
	if picture.Y.Max <= 0 {
		picture.Y.Max = 1 // all are 0
	}
	if err := stroke(picture, middle, grey, 1); err != nil {
		return nil, err
	}
	marks, err := plotter.NewScatter(middle)
	if err != nil {
		return nil, fmt.Errorf("drawing %s: %w", p.name, err)
	}
	marks.Color, marks.Shape, marks.Radius = blue, draw.CircleGlyph{}, 3
	picture.Add(marks)
	return picture, nil
}
