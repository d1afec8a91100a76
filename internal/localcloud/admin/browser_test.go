package admin_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browser starts a headless Chromium and opens the page. Without one the test is skipped, unless
// SPOTBATCH_TEST_REQUIRE_BROWSER=1 asks for a failure.
func browser(t *testing.T, url string) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		const missing = "there is no chromium or google-chrome in PATH; install one to see the page tested"
		if os.Getenv("SPOTBATCH_TEST_REQUIRE_BROWSER") == "1" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path),
		// Tests run as root in containers, where Chromium's sandbox cannot work; the page is our own.
		chromedp.NoSandbox,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate(url+"/")); err != nil {
		t.Fatalf("open the page: %v", err)
	}
	return ctx
}

// eventually evaluates an expression in the page until it is true.
func eventually(ctx context.Context, t *testing.T, what, expression string) {
	t.Helper()
	short, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if _, err := chromedp.Run(short, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(50*time.Millisecond))); err != nil {
		body, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
		t.Fatalf("%s: %v; the page shows:\n%s", what, err, body)
	}
}

// count is an expression: what the page shows for the subscription in a column.
func count(column string) string {
	return fmt.Sprintf(`document.querySelector('[data-subscription="%s"] [data-label="%s"]')?.textContent`, subscription, column)
}

func TestPageIsLive(t *testing.T) {
	b := setup(t)
	client := b.pubsub()
	ctx := browser(t, b.url)
	eventually(ctx, t, "nothing is published yet", count("backlog")+` === "0"`)
	eventually(ctx, t, "no faults", `document.getElementById("faults").textContent.includes("everything works")`)

	// The page refreshes by itself: this is the same document all the time.
	if err := chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`)); err != nil {
		t.Fatal(err)
	}
	b.publish(client, "a", "b", "c")
	eventually(ctx, t, "three messages are published", count("ready")+` === "3"`)
	m := b.pull(client)
	eventually(ctx, t, "one is leased", count("leased")+` === "1" && `+count("backlog")+` === "3"`)

	item := m.GetMessage().GetAttributes()["item_id"]
	if err := chromedp.Do(ctx, chromedp.SendKeys(chromedp.CSS("#item-id"), item+"\n")); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "its history", `[...document.querySelectorAll("#item li")].map(li => li.children[1].textContent).join() === "published,delivered"`)
	b.modify(client, m.GetAckId(), 0)
	eventually(ctx, t, "its history goes on", `document.querySelector("#item .tag").textContent === "waiting"`)

	b.fault(`{"method":"Acknowledge","code":"UNAVAILABLE","count":5}`)
	eventually(ctx, t, "the fault", `document.getElementById("faults").innerText.includes("answers UNAVAILABLE, before the effect")`)
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS("#faults button"))); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "no faults any more", `document.getElementById("faults").textContent.includes("everything works")`)
	if got := b.faults(); len(got) != 0 {
		t.Errorf("the page removed the fault from itself only: %v", got)
	}
	eventually(ctx, t, "the same document", `window.sameDocument && document.getElementById("live").textContent.startsWith("live")`)

	// An open page does not hold up the end.
	start := time.Now()
	b.Close()
	if took := time.Since(start); took > time.Second {
		t.Errorf("Close took %v with the page open", took)
	}
	eventually(ctx, t, "the page says that it is cut off", `document.getElementById("live").className === "lost"`)
}

// Whoever publishes chooses these texts: the page shows them as text, and the browser would refuse to run them.
func TestPageShowsHostileTextAsText(t *testing.T) {
	b := setup(t)
	client := b.pubsub()
	const hostile = `"><img src=x onerror="window.owned=1"><script>window.owned=1</script>`
	b.publish(client, hostile)
	b.fault(`{"method":"Commit","code":"ABORTED","message":"<script>window.owned=1</script>"}`)
	ctx := browser(t, b.url)
	if err := chromedp.Do(ctx, chromedp.WaitVisible(chromedp.CSS("#subs table")), chromedp.SendKeys(chromedp.CSS("#item-id"), hostile+"\n")); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "the item", `document.querySelector("#item h3")?.textContent === `+fmt.Sprintf("%q", hostile))
	eventually(ctx, t, "nothing of it became an element", `document.querySelectorAll("img, #item script, #item iframe").length === 0 && document.scripts.length === 1`)
	owned, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`(() => {
		const script = document.createElement("script");
		script.textContent = "window.owned = 1";
		document.body.append(script);
		const holder = document.createElement("div");
		holder.innerHTML = "<img src='data:,' onerror='window.owned=1'>";
		document.body.append(holder);
		return new Promise(resolve => setTimeout(() => resolve(window.owned === 1), 300));
	})()`, chromedp.EvalAwaitPromise))
	if err != nil || owned {
		t.Errorf("a script that was put into the page ran: %v, %v", owned, err)
	}
}

// What needs no browser: one document, nothing from elsewhere, and a policy that fits it.
func TestPageStandsAlone(t *testing.T) {
	b := setup(t)
	_, text := b.call("GET", "/", "")
	for _, outside := range []string{"http://", "https://", "//cdn", "@import", "innerHTML", "insertAdjacentHTML", "document.write", "eval("} {
		if strings.Contains(text, outside) {
			t.Errorf("the page contains %q", outside)
		}
	}
	if n := strings.Count(text, "<script") + strings.Count(text, "<style"); n != 2 || strings.Contains(text, " style=") {
		t.Errorf("%d scripts and styles, want 2 and no style attributes: the policy allows no others", n)
	}
}
