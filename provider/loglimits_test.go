package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/provider/spool"
)

func TestLogLimits(t *testing.T) {
	for text, want := range map[string]spool.LogLimits{
		"{}": {MaxBytes: 10 << 20, MaxFiles: 5},
		"{containerLogMaxSize: 50Mi, containerLogMaxFiles: 2}": {MaxBytes: 50 << 20, MaxFiles: 2},
		"{containerLogMaxSize: \"-1\"}":                        {MaxBytes: -1, MaxFiles: 1},
	} {
		var c Config
		assert.NoError(t, yaml.UnmarshalStrict([]byte(text), &c), text)
		c.setDefaults()
		assert.Equal(t, want, c.logLimits(), text)
		for _, problem := range []string{"containerLogMaxSize", "containerLogMaxFiles"} {
			assert.NotContains(t, c.validate().Error(), problem, text)
		}
	}
}

func TestLogLimitsThatCannotBe(t *testing.T) {
	c := Config{ContainerLogMaxSize: resource.MustParse("1Ki"), ContainerLogMaxFiles: 1}
	assert.ErrorContains(t, c.validate(), "containerLogMaxSize must be 65536 bytes or more")
	assert.ErrorContains(t, c.validate(), "containerLogMaxFiles must be 2 or more")
}
