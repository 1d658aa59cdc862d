package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
	for name, tc := range map[string]struct {
		only, want []string
		err        string
	}{
		"one":                           {[]string{"launch"}, []string{"launch"}, ""},
		"several, in the list's order":  {[]string{"trainjobs", "start"}, []string{"start", "trainjobs"}, ""},
		"what is not there is an error": {[]string{"start", "speed"}, nil, "--only speed is not known; there are start, mpi, launch, trainjobs, flux"},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := choose(tc.only)
			if tc.err != "" {
				assert.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			var got []string
			for _, m := range chosen {
				got = append(got, m.name)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestMedian(t *testing.T) {
	assert.InDelta(t, 2, median([]float64{1, 2, 9}), 0)
	assert.InDelta(t, 2.5, median([]float64{1, 2, 3, 9}), 0)
}

func TestParseFigures(t *testing.T) {
	text := "a warning of mpirun\n"
	for i, f := range figures {
		text += fmt.Sprintf("%s %d.5\n", f.name, i+1)
	}
	got, err := parseFigures(text)
	require.NoError(t, err)
	assert.InDelta(t, 1.5, got["latency-within"], 0)
	_, err = parseFigures("latency-within 3\n")
	assert.ErrorContains(t, err, "did not print bandwidth-within but: latency-within 3")
}

func TestInTurn(t *testing.T) {
	var order string
	bare := func() (int, error) { order += "b"; return 1, nil }
	ours := func() (int, error) { order += "o"; return 2, nil }
	for round := range 2 {
		one, other, err := inTurn(round, bare, ours)
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2}, []int{one, other})
	}
	assert.Equal(t, "boob", order)
	_, _, err := inTurn(0, func() (int, error) { return 0, errors.New("failed") }, ours)
	assert.EqualError(t, err, "failed")
	assert.Equal(t, "boob", order, "the other is not tried")
}
