//! The page: markup, styles and scripts of `assets/report/`, the charting library and the data of some runs,
//! in one file. It asks the network for nothing. The policy in `page.html` (its `meta`) lets the browser
//! refuse everything outside of the file.

use std::fs;
use std::path::Path;

use tidelab_server::error::{io_error, Error, Result};

use super::page::{data, Kept};

const PAGE: &str = include_str!("../../assets/report/page.html");
/// The charting library, uPlot 1.6.32; `assets/uplot/README.md` says where it is from.
const LIBRARY: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const LIBRARY_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
/// The library's licence asks to be with every copy.
const LIBRARY_LICENCE: &str = include_str!("../../assets/uplot/LICENSE");

const STYLES: [&str; 5] = [
    include_str!("../../assets/report/colours.css"),
    include_str!("../../assets/report/layout.css"),
    include_str!("../../assets/report/controls.css"),
    include_str!("../../assets/report/tables.css"),
    include_str!("../../assets/report/print.css"),
];

/// In the order of their dependencies; all are parts of one function.
const SCRIPTS: [&str; 19] = [
    include_str!("../../assets/report/elements.js"),
    include_str!("../../assets/report/units.js"),
    include_str!("../../assets/report/data.js"),
    include_str!("../../assets/report/colours.js"),
    include_str!("../../assets/report/state.js"),
    include_str!("../../assets/report/table.js"),
    include_str!("../../assets/report/picture.js"),
    include_str!("../../assets/report/chart.js"),
    include_str!("../../assets/report/filters.js"),
    include_str!("../../assets/report/point.js"),
    include_str!("../../assets/report/overview.js"),
    include_str!("../../assets/report/curves.js"),
    include_str!("../../assets/report/heatmap.js"),
    include_str!("../../assets/report/driver.js"),
    include_str!("../../assets/report/latency.js"),
    include_str!("../../assets/report/seconds.js"),
    include_str!("../../assets/report/cells.js"),
    include_str!("../../assets/report/setup.js"),
    include_str!("../../assets/report/main.js"),
];

/// Writes the page of some runs. Errors: those of the file.
pub fn write(runs: &[Kept], out: &Path) -> Result<()> {
    let directory = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = directory.canonicalize().map_err(io_error("cannot write to", directory))?;
    let title = match runs {
        [one] => one.run.title.clone(),
        several => format!("{} runs", several.len()),
    };
    let data = serde_json::to_string(&data(runs, &directory))
        .map_err(|error| Error::Usage(format!("{}: {error}", out.display())))?;
    fs::write(out, page(&title, &data)).map_err(io_error("cannot write", out))
}

/// The page with its parts in their places. `data` is JSON.
fn page(title: &str, data: &str) -> String {
    let mut page = PAGE;
    let mut whole = String::with_capacity(PAGE.len() + LIBRARY.len() + data.len() + (1 << 18));
    let licence = format!("/*\nuPlot\n{LIBRARY_LICENCE}\n*/\n");
    let style = format!("{LIBRARY_STYLE}\n{}", STYLES.concat());
    let script = format!("(function () {{\n\"use strict\";\n{}}})();\n", SCRIPTS.concat());
    let parts = [
        ("{title}", escape(title)),
        ("{style}", style),
        ("{data}", in_script(data)),
        ("{library}", licence + LIBRARY),
        ("{script}", script),
    ];
    // From front to back, so that inserted text is not searched for the next place.
    for (mark, part) in &parts {
        if let Some((before, after)) = page.split_once(mark) {
            whole.push_str(before);
            whole.push_str(part);
            page = after;
        }
    }
    whole.push_str(page);
    whole
}

/// Text for HTML and SVG, in attributes too.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// JSON for a script element: `<` occurs in strings only. It has another spelling there, so neither
/// `</script` nor `<!--` is there.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_data_ends_a_script_or_begins_an_element() {
        let evil = "</script><script>alert(1)</script><!-- {script} {library}";
        let json = serde_json::to_string(&serde_json::json!({ "title": evil })).unwrap();
        let page = page(evil, &json);
        assert!(!page.contains("<script>alert") && !page.contains("<!--"));
        assert!(page.contains("<title>&lt;/script&gt;&lt;script&gt;"));
        let script = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
        let read: serde_json::Value = serde_json::from_str(script).unwrap();
        assert_eq!(read["title"], evil, "what is read back is what was there");
    }

    #[test]
    fn every_part_has_its_place_once() {
        for mark in ["{title}", "{style}", "{data}", "{library}", "{script}"] {
            assert_eq!(PAGE.matches(mark).count(), 1, "{mark}");
        }
        let page = page("T", "{}");
        assert!(page.contains("uPlot=function") && page.contains("Permission is hereby granted"));
        for asset in SCRIPTS.iter().chain(&STYLES).chain([&LIBRARY]) {
            assert!(!asset.contains("</script") && !asset.contains("</style") && !asset.contains("<!--"));
        }
        assert!(LIBRARY.contains("(v1.6.32)") && !LIBRARY.contains("sourceMappingURL"));
    }

    #[test]
    fn no_script_makes_markup_from_text() {
        for word in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "XMLHttp"]
        {
            assert!(SCRIPTS.iter().all(|script| !script.contains(word)), "{word}");
        }
    }
}
