package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Seen is what the browser saw.
type Seen struct {
	Title string `json:"title"`
	// Text is all that is written on the page, Live what it says of its connection.
	Text string `json:"text"`
	Live string `json:"live"`
	// Gangs are the gangs' ids and stages, Hosts the HPC nodes, Used their GPUs in use.
	Gangs map[string]string `json:"gangs"`
	Hosts []string          `json:"hosts"`
	Used  int               `json:"used"`
	// Slots is the text of the slots of the gangs, all of which were opened.
	Slots string `json:"slots"`
	// Filtered are the gangs of the chosen namespace.
	Filtered []string `json:"filtered"`
	// Dark tells that the background differs in a dark scheme.
	Dark bool `json:"dark"`
	// Foreign counts elements that the page does not make: somebody's HTML was read.
	Foreign int `json:"foreign"`

	Console  []string `json:"console"`
	Requests []string `json:"requests"`
	Dialogs  int      `json:"dialogs"`
}

func main() {
	url := flag.String("url", "", "the page's address")
	wait := flag.String("wait", "", "text that must come")
	namespace := flag.String("namespace", "", "namespace to choose")
	picture := flag.String("picture", "", "file for a picture of the page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	const within = time.Minute
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	seen, err := look(ctx, *url, *wait, *namespace, *picture)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pagecheck:", err)
		out, _ := json.Marshal(seen)
		fmt.Fprintln(os.Stderr, string(out))
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		fmt.Fprintln(os.Stderr, "pagecheck:", err)
		os.Exit(1)
	}
}

// listen notes all that happens in the tab.
func listen(ctx context.Context, seen *Seen, mu *sync.Mutex) {
	chromedp.ListenTarget(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			for _, a := range e.Args {
				seen.Console = append(seen.Console, string(a.Value)+a.Description)
			}
		case *runtime.EventExceptionThrown:
			seen.Console = append(seen.Console, e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			seen.Console = append(seen.Console, e.Entry.Text+" "+e.Entry.URL)
		case *network.EventRequestWillBeSent:
			seen.Requests = append(seen.Requests, e.Request.URL)
		case *page.EventJavascriptDialogOpening:
			seen.Dialogs++
			go func() { _ = chromedp.Run(ctx, page.HandleJavaScriptDialog(true)) }()
		}
	})
}

func look(ctx context.Context, url, wait, namespace, picture string) (Seen, error) {
	seen := Seen{Gangs: map[string]string{}, Console: []string{}, Requests: []string{}}
	var mu sync.Mutex
	// Root may not use the browser's sandbox; it opens nothing but our page.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath("chromium"), chromedp.WindowSize(1120, 800))
	allocated, end := chromedp.NewExecAllocator(ctx, options...)
	defer end()
	tab, closeTab := chromedp.NewContext(allocated)
	defer closeTab()
	listen(tab, &seen, &mu)
	var gangs [][]string
	var filtered []string
	var light, dark, text string
	var image []byte
	background := chromedp.Evaluate(`getComputedStyle(document.body).backgroundColor`, &light)
	scheme := func(value string) chromedp.Action {
		return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}})
	}
	err := chromedp.Run(tab,
		network.Enable(), log.Enable(),
		scheme("light"),
		chromedp.Navigate(url),
		chromedp.WaitVisible(`body[data-ready="true"]`),
		chromedp.Evaluate(`document.querySelectorAll('.gang summary').forEach((s) => s.click())`, nil),
		chromedp.Poll(fmt.Sprintf(`document.body.innerText.includes(%s) && document.getElementById('state').textContent === 'live'`, quoted(wait)), nil),
		background,
		chromedp.Evaluate(`[...document.querySelectorAll('.gang[open] table')].map((t) => t.innerText).join('\n')`, &seen.Slots),
		chromedp.Title(&seen.Title),
		chromedp.Text(`body`, &text),
		chromedp.Text(`#state`, &seen.Live),
		chromedp.Evaluate(`[...document.querySelectorAll('.gang')].map((g) => [g.dataset.gang, g.querySelector('.badge').textContent])`, &gangs),
		chromedp.Evaluate(`[...document.querySelectorAll('.host')].map((h) => h.dataset.node)`, &seen.Hosts),
		chromedp.Evaluate(`document.querySelectorAll('.host .cell.used').length`, &seen.Used),
		chromedp.Evaluate(`document.body.querySelectorAll('img, script, iframe, a, svg, object, link, style').length`, &seen.Foreign),
		scheme("dark"),
		chromedp.Evaluate(`getComputedStyle(document.body).backgroundColor`, &dark),
		scheme("light"),
		chromedp.FullScreenshot(&image, 100),
	)
	if err == nil && namespace != "" {
		err = chromedp.Run(tab,
			chromedp.SetValue(`#namespace`, namespace),
			chromedp.Evaluate(`document.getElementById('namespace').dispatchEvent(new Event('change'))`, nil),
			chromedp.Poll(fmt.Sprintf(`latest && latest.gangs.length > 0 && latest.gangs.every((g) => g.namespace === %s)`, quoted(namespace)), nil),
			chromedp.Evaluate(`[...document.querySelectorAll('.gang')].map((g) => g.dataset.gang)`, &filtered),
		)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, g := range gangs {
		seen.Gangs[g[0]] = strings.TrimSpace(g[1])
	}
	seen.Text, seen.Filtered, seen.Dark = text, filtered, light != dark
	if err != nil {
		return seen, fmt.Errorf("looking at %s: %w", url, err)
	}
	if picture != "" {
		const everybody = 0o644
		if err := os.WriteFile(picture, image, everybody); err != nil {
			return seen, fmt.Errorf("keeping the picture: %w", err)
		}
	}
	return seen, nil
}

// quoted is a text as JavaScript has it.
func quoted(text string) string {
	data, _ := json.Marshal(text) // a string can always be encoded
	return string(data)
}
