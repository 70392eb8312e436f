#!/bin/sh
# browser.sh [--pictures DIR] [TEST...]: tests the pages of th_tape_write_html in headless Chromium, without a network.
# Builds programs into build/browser, which write the pages, and runs the tests teaching/browser/test_NAME.py. Each test opens
# pages from their files. A TEST is such a name: browser.sh steps attention. Without names, all tests run.
# The tests `class`, `first` and `exercises` open the class's page, which class.sh builds into build-class. The test `site` walks all links of the
# site, which site.sh writes with this page.
# --pictures DIR   also writes screenshots: light, dark, narrow, printed. docs/looking-inside.md has one of them, docs/images/tape_page.png:
#                  browser.sh --pictures DIR look, and copy DIR/tape_page.png
# Installs Debian's chromium, chromium-driver and python3-selenium.
set -eu

root=$(dirname "$(dirname "$(readlink -f "$0")")")
build=${TAPEHEAD_BROWSER_BUILD:-$root/build/browser}
pictures=

. "$root/scripts/library/help.sh"
answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --pictures)
        need_value "$@"
        mkdir -p "$2"
        pictures=$(cd "$2" && pwd)
        shift
        ;;
    -*) refuse "unknown option $1" ;;
    *) break ;;
    esac
    shift
done
if [ $# -eq 0 ]; then
    for test in "$root"/teaching/browser/test_*.py; do
        set -- "$@" "$(basename "$test" .py | sed 's/^test_//')"
    done
fi
for test; do
    [ -e "$root/teaching/browser/test_$test.py" ] || refuse "there is no test called $test"
done

"$root/scripts/setup.sh" browser
echo "Building into $build" >&2
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_BROWSER=ON -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_TESTS=OFF >/dev/null
cmake --build "$build" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" \
    --target browser_pages --target attention_backward --target copy_task >/dev/null

# -- the pages, from the program of the tests and from examples --

pages=$build/pages
rm -rf "$pages"
mkdir "$pages"
"$build/teaching/browser/browser_pages" "$pages"
"$build/examples/attention_backward" --page "$pages/attention_1.html" >/dev/null 2>&1
"$build/examples/attention_backward" --causal --heads 2 --dropout 0.3 --page "$pages/attention_2.html" >/dev/null 2>&1
"$build/examples/copy_task" --steps 30 --quiet --out "$build" --page "$pages/copy.html" >/dev/null 2>&1

# -- the class's page --

case " $* " in
*" class "* | *" first "* | *" exercises "* | *" site "*)
    class=${TAPEHEAD_CLASS_BUILD:-$root/build-class}
    "$root/scripts/class.sh" --build "$class" build >/dev/null
    case " $* " in
    *" site "*)
        "$root/scripts/site.sh" --build "$build" --class "$class/teaching/class/class.html" "$build/pages-of-the-site" >/dev/null
        export TAPEHEAD_SITE="$build/pages-of-the-site"
        ;;
    esac
    export TAPEHEAD_CLASS="$class/teaching/class/class.html" TAPEHEAD_COPY_TASK="$build/examples/copy_task"
    ;;
esac

# -- the tests: Debian's Selenium is for Debian's Python --

cd "$root/teaching/browser"
failed=
for test; do
    echo "== browser.sh: $test" >&2
    TAPEHEAD_PAGES=$pages TAPEHEAD_PICTURES=$pictures PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "test_$test.py" || failed="$failed $test"
done
if [ -n "$failed" ]; then
    echo "browser.sh: FAILED:$failed" >&2
    exit 1
fi
