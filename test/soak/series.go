package soak

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Series is one quantity over time.
type Series struct {
	Name, Unit string
	// Share and Slack are by how much it may grow in the second half and still be flat:
	// a share of its median, and an amount.
	Share, Slack float64
	// PerHour is by how much it may grow in an hour, where it was measured for Long or
	// more; 0 for any. Share and Slack alone would let a slow leak pass in each half hour.
	PerHour float64
	Points  []Point
}

// Long is for how long something has to be measured for its slope per hour to count: in
// less the noise of a collector's heap is larger than what leaks.
const Long = 30 * time.Minute

// Point is one measurement.
type Point struct {
	At    time.Duration
	Value float64
}

// Add adds a measurement; they are added in the order of time.
func (s *Series) Add(at time.Duration, value float64) {
	s.Points = append(s.Points, Point{at, value})
}

// second is the second half, by time.
func (s Series) second() []Point {
	if len(s.Points) == 0 {
		return nil
	}
	middle := (s.Points[0].At + s.Points[len(s.Points)-1].At) / 2
	i := slices.IndexFunc(s.Points, func(p Point) bool { return p.At >= middle })
	return s.Points[i:]
}

// Slope is the second half's, per hour: the median of the slopes between all pairs of
// points, so that single peaks count for nothing (Theil 1950, Sen 1968,
// https://doi.org/10.1080/01621459.1968.10480934). It is 0 for fewer than two points.
func (s Series) Slope() float64 {
	points := s.second()
	var slopes []float64
	for i, a := range points {
		for _, b := range points[i+1:] {
			if b.At > a.At {
				slopes = append(slopes, (b.Value-a.Value)/(b.At-a.At).Hours())
			}
		}
	}
	return median(slopes)
}

// Growth is by how much it grows in the second half, by its slope.
func (s Series) Growth() float64 {
	points := s.second()
	if len(points) == 0 {
		return 0
	}
	return s.Slope() * (points[len(points)-1].At - points[0].At).Hours()
}

// Flat tells whether it grows by no more than it may. Something of which there is no
// measurement is not flat.
func (s Series) Flat() bool {
	if len(s.Points) <= 2 || s.Growth() > s.Share*median(values(s.second()))+s.Slack {
		return false
	}
	long := s.Points[len(s.Points)-1].At-s.Points[0].At >= Long
	return !long || s.PerHour == 0 || s.Slope() <= s.PerHour
}

func values(points []Point) []float64 {
	v := make([]float64, len(points))
	for i, p := range points {
		v[i] = p.Value
	}
	return v
}

// median is 0 of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// Table draws what was measured, a line for each series.
func Table(all []Series) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tstart\tmedian of 2nd half\tmost\tend\tslope per hour\tgrowth in 2nd half\t\t")
	for _, s := range all {
		v := values(s.Points)
		if len(v) == 0 {
			fmt.Fprintf(w, "%s\t\t\t\t\t\t\tnever measured\t\n", s.Name)
			continue
		}
		verdict := "flat"
		if !s.Flat() {
			verdict = "GROWS"
		}
		fmt.Fprintf(w, "%s (%s)\t%.4g\t%.4g\t%.4g\t%.4g\t%+.3g\t%+.3g\t%s\t\n", s.Name, s.Unit,
			v[0], median(values(s.second())), slices.Max(v), v[len(v)-1], s.Slope(), s.Growth(), verdict)
	}
	_ = w.Flush() // into memory
	return text.String()
}
