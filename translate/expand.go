package translate

import "strings"

// Expand replaces $(NAME) by the variable's value, as kubelet does in commands,
// args and the values of environment variables: an unknown $(NAME) stays as it
// is, and $$ stands for one $.
func Expand(s string, lookup func(name string) (string, bool)) string {
	var out strings.Builder
	for {
		plain, rest, found := strings.Cut(s, "$")
		out.WriteString(plain)
		if !found {
			return out.String()
		}
		if after, escaped := strings.CutPrefix(rest, "$"); escaped {
			out.WriteByte('$')
			s = after
			continue
		}
		name, after, isReference := reference(rest)
		if !isReference {
			out.WriteByte('$')
			s = rest
			continue
		}
		value, known := lookup(name)
		if !known {
			value = "$(" + name + ")"
		}
		out.WriteString(value)
		s = after
	}
}

// reference reads "(NAME)" from the start of what follows a $.
func reference(s string) (name, after string, ok bool) {
	s, ok = strings.CutPrefix(s, "(")
	if !ok {
		return "", "", false
	}
	return strings.Cut(s, ")")
}
