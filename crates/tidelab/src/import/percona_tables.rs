//! The tables of Percona's report of 2026 from an import. They have transactions per second by server and
//! threads for each scenario and tier, and the peak of each version compared with the version before it.

use std::fmt::Write as _;

use super::Imported;
use crate::run::Role;

/// All tables as text. A failed cell shows `-`; the best of a column is marked.
pub fn render(imported: &Imported) -> String {
    let mut text = String::new();
    let axis = |name: &str| {
        imported.run.axes.iter().find(|a| a.name == name).map(|a| a.values.clone()).unwrap_or_default()
    };
    let (servers, threads) = (axis("server"), axis("threads"));
    let (scenarios, tiers) = (axis("scenario"), axis("tier"));
    for scenario in &scenarios {
        for tier in tiers.iter().rev() {
            let rows: Vec<(String, Vec<Option<f64>>)> = servers
                .iter()
                .map(|server| {
                    let of = |n: &String| rate(imported, scenario, tier, server, n);
                    (server.clone(), threads.iter().map(of).collect())
                })
                .filter(|(_, row): &(String, Vec<Option<f64>>)| row.iter().any(Option::is_some))
                .collect();
            if !rows.is_empty() {
                table(&format!("{scenario}, {tier}: transactions/s by threads"), &threads, &rows, &mut text);
            }
        }
    }
    text.push_str(&progression(imported, &scenarios, &tiers, &servers, &threads));
    text
}

/// The transactions a second of a sound cell; of several rounds the first one's.
pub(super) fn rate(
    imported: &Imported,
    scenario: &str,
    tier: &str,
    server: &str,
    threads: &str,
) -> Option<f64> {
    let wanted = [("scenario", scenario), ("tier", tier), ("server", server), ("threads", threads)];
    let found = imported
        .cells
        .iter()
        .map(|c| &c.cell)
        .find(|cell| cell.counts() && wanted.iter().all(|(name, value)| cell.id.label(name) == *value));
    found.and_then(|cell| cell.figures.get("transactions_per_s").copied())
}

fn table(title: &str, columns: &[String], rows: &[(String, Vec<Option<f64>>)], text: &mut String) {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let best: Vec<f64> = (0..columns.len())
        .map(|at| rows.iter().filter_map(|(_, row)| row[at]).fold(f64::NEG_INFINITY, f64::max))
        .collect();
    let _ = writeln!(text, "{title} (* best)");
    let _ = write!(text, "  {:width$}", "");
    for column in columns {
        let _ = write!(text, "{column:>9}");
    }
    text.push('\n');
    for (name, row) in rows {
        let _ = write!(text, "  {name:width$}");
        for (value, best) in row.iter().zip(&best) {
            let shown = match value {
                Some(v) if v == best => format!("{v:.0}*"),
                Some(v) => format!("{v:.0}"),
                None => "-".to_string(),
            };
            let _ = write!(text, "{shown:>9}");
        }
        text.push('\n');
    }
    text.push('\n');
}

/// For each family with several versions: the peak over all threads, and its ratio to the version before.
fn progression(
    imported: &Imported,
    scenarios: &[String],
    tiers: &[String],
    servers: &[String],
    threads: &[String],
) -> String {
    let mut text = String::new();
    let competitor = imported.run.axes.iter().any(|a| a.role == Role::Competitor);
    let families = imported.run.design.get("families").and_then(|f| f.as_object());
    let (true, Some(families)) = (competitor, families) else { return text };
    let width = servers.iter().map(String::len).max().unwrap_or(0);
    for scenario in scenarios {
        let mut lines = String::new();
        for versions in families.values().filter_map(|v| v.as_array()).filter(|v| v.len() > 1) {
            let mut before: Vec<Option<f64>> = vec![None; tiers.len()];
            for version in versions.iter().filter_map(|v| v.as_str()) {
                let peaks: Vec<Option<f64>> = tiers
                    .iter()
                    .map(|tier| {
                        threads
                            .iter()
                            .filter_map(|n| rate(imported, scenario, tier, version, n))
                            .reduce(f64::max)
                    })
                    .collect();
                if peaks.iter().all(Option::is_none) {
                    continue;
                }
                let _ = write!(lines, "  {version:width$}");
                for (peak, before) in peaks.iter().zip(&before) {
                    let change = match (peak, before) {
                        (Some(now), Some(then)) if *then > 0.0 => {
                            format!("{:+.0} %", (now / then - 1.0) * 100.0)
                        }
                        _ => String::new(),
                    };
                    let peak = peak.map_or("-".to_string(), |p| format!("{p:.0}"));
                    let _ = write!(lines, "{peak:>9}{change:>8}");
                }
                lines.push('\n');
                before = peaks;
            }
        }
        if !lines.is_empty() {
            let _ = write!(
                text,
                "{scenario}, by version: peak transactions/s, and against the version before\n  {:width$}",
                ""
            );
            for tier in tiers {
                let _ = write!(text, "{tier:>9}{:>8}", "");
            }
            let _ = write!(text, "\n{lines}\n");
        }
    }
    text
}
