//! Groups as tables: rows are cases and metrics, columns are pools. For the terminal and for
//! Markdown, which differ in lines and spaces alone.

use std::fmt::Write as _;

use super::report::{Group, Report};
use super::summary::Summary;
use super::words;

/// The terminal's tables are not wider; what does not fit follows in another table.
const WIDTH: usize = 118;

/// A head and rows of as many cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Of one group.
    pub(crate) fn of_group(group: &Group) -> Self {
        let pools = group.pools();
        let mut head = vec!["case".to_owned(), "metric".to_owned()];
        head.extend(pools.iter().map(|pool| (*pool).to_owned()));
        let mut rows = Vec::new();
        for row in &group.rows {
            let mut metrics = row.metrics();
            if metrics.is_empty() {
                metrics.push(("", ""));
            }
            for (index, (metric, unit)) in metrics.into_iter().enumerate() {
                let label = if index == 0 { &*row.label } else { "" };
                let mut cells = vec![label.to_owned(), format!("{metric} {unit}")];
                cells.extend(pools.iter().map(|pool| {
                    let outcome = row.pools.iter().find(|outcome| outcome.pool == *pool);
                    outcome.map_or_else(String::new, |outcome| {
                        words::cell(outcome, outcome.figure(metric))
                    })
                }));
                rows.push(cells);
            }
        }
        Self { head, rows }
    }

    /// Of the whole report: a line for each group.
    pub(crate) fn of_summary(report: &Report) -> Self {
        let head = ["group", "best peer", "ahead", "within noise", "behind"];
        let rows = report.groups.iter().map(|group| {
            let summary = Summary::of_group(group);
            vec![
                group.title(),
                summary.factor(),
                summary.ahead.to_string(),
                summary.within_noise.to_string(),
                summary.behind.to_string(),
            ]
        });
        Self {
            head: head.map(str::to_owned).to_vec(),
            rows: rows.collect(),
        }
    }

    /// With aligned columns. If they are too wide for one line, the first `fixed` columns stand
    /// before each part of the others.
    pub(crate) fn aligned(&self, fixed: usize) -> String {
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| {
                let cells = self.rows.iter().map(|row| &row[column]);
                let cells = cells.chain([&self.head[column]]);
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let before: usize = widths[..fixed].iter().map(|width| width + 2).sum();
        let mut text = String::new();
        let mut from = fixed;
        while from < self.head.len() {
            let mut to = from;
            let mut width = before;
            while to < self.head.len() && (to == from || width + widths[to] <= WIDTH) {
                width += widths[to] + 2;
                to += 1;
            }
            if from > fixed {
                text.push('\n');
            }
            for row in [&self.head].into_iter().chain(&self.rows) {
                let columns = (0..fixed).chain(from..to);
                let mut line = String::new();
                for column in columns {
                    let _ = write!(line, "{:<1$}  ", row[column], widths[column]);
                }
                let _ = writeln!(text, "{}", line.trim_end());
            }
            from = to;
        }
        text
    }

    /// As Markdown has them.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        let mut line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        };
        line(&self.head);
        line(&vec!["---".to_owned(); self.head.len()]);
        for row in &self.rows {
            line(row);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn a_row_is_a_metric_of_a_case_and_a_column_is_a_pool() {
        let table = Table::of_group(&example::report().groups[0]);
        let head = [
            "case",
            "metric",
            "anthill",
            "rayon",
            "crossbeam unbounded",
            "tokio spawn",
        ];
        assert_eq!(table.head, head);
        assert_eq!(table.rows.len(), 9);
        let [wall, cpu] = [&table.rows[6], &table.rows[7]];
        assert_eq!(wall[..2], ["1024 1p", "wall ns/task"]);
        assert!(wall[3].ends_with('≈'), "{wall:?}");
        assert_eq!(wall[4..], ["", "failed"]);
        assert_eq!(cpu[..2], ["", "cpu ns/task"]);
    }

    #[test]
    fn a_wide_table_goes_on_below_itself() {
        let head: Vec<String> = (0..20).map(|column| format!("column {column}")).collect();
        let table = Table {
            rows: vec![head.clone()],
            head,
        };
        let text = table.aligned(1);
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert_eq!(text.matches("column 19").count(), 2);
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with("column 0"))
                .count(),
            4
        );
    }

    #[test]
    fn markdown_has_a_line_below_the_head() {
        let table = Table {
            head: vec!["a".to_owned(), "b|c".to_owned()],
            rows: vec![vec!["1".to_owned(), "2".to_owned()]],
        };
        assert_eq!(
            table.markdown(),
            "| a | b\\|c |\n| --- | --- |\n| 1 | 2 |\n"
        );
    }
}
