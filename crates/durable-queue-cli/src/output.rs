//! Standard output: text for people, or JSON for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use durable_queue::store::{COUNT_LIMIT, DeadJob, DoneJob, JobState, ListedJob, StoreStats};
use durable_queue::{Failure, Groups, Limit};
use serde_json::{Value, json};

use crate::times::{length, shown};

#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    /// Prints one line, `text` or JSON, and flushes it, because the next one may come much later.
    fn line(self, text: impl FnOnce() -> String, value: impl FnOnce() -> Value) -> io::Result<()> {
        let line = if self.json {
            value().to_string()
        } else {
            text()
        };
        let mut output = io::stdout().lock();
        writeln!(output, "{line}")?;
        output.flush()
    }

    /// Prints the headings of a table, unless the output is JSON.
    pub(crate) fn head(self, text: &str) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        writeln!(io::stdout().lock(), "{text}")
    }

    pub(crate) fn count(self, what: &str, count: usize) -> io::Result<()> {
        self.line(|| format!("{what} {count}"), || json!({ what: count }))
    }

    pub(crate) fn id(self, id: u64, what: &str) -> io::Result<()> {
        self.line(
            || format!("{id} {what}"),
            || json!({ "id": id, "state": what }),
        )
    }

    /// With its failed attempts, if asked.
    pub(crate) fn job(self, job: &ListedJob, failures: bool) -> io::Result<()> {
        let failures = failures.then(|| job.failures());
        let state = match job.state {
            JobState::Scheduled => "scheduled",
            JobState::Retryable => "retryable",
            JobState::Available => "available",
            JobState::Waiting => "waiting",
            JobState::Claimed => "claimed",
            JobState::Running => "running",
        };
        let key = job.key.as_deref();
        self.line(
            || {
                format!(
                    "{:>12}  {state:<9}  {:<27}  {:>8}  {}{}{}{}{}{}{}",
                    job.id.as_u64(),
                    shown(job.at),
                    job.attempts,
                    key.map(readable).unwrap_or_default(),
                    in_brackets("group ", job.group.as_deref()),
                    in_brackets("kind ", job.kind.as_deref()),
                    in_brackets("", job.schedule.as_deref()),
                    urgent(job.urgent),
                    cancelled(job.cancelled),
                    below(failures.as_deref())
                )
            },
            || {
                with_failures(
                    failures.as_deref(),
                    json!({
                        "id": job.id.as_u64(),
                        "state": state,
                        "at": shown(job.at),
                        "due": shown(job.due),
                        "attempts": job.attempts,
                        "key": key.map(exact),
                        "group": job.group,
                        "kind": job.kind,
                        "schedule": job.schedule,
                        "urgent": job.urgent,
                        "cancelled": job.cancelled,
                    }),
                )
            },
        )
    }

    /// With its failed attempts, if asked.
    pub(crate) fn dead(self, dead: &DeadJob, failures: bool) -> io::Result<()> {
        let failures = failures.then(|| dead.failures());
        let key = dead.key.as_deref();
        self.line(
            || {
                format!(
                    "{:>12}  {:<27}  {:>8}  {}  {}{}{}{}{}{}",
                    dead.id.as_u64(),
                    shown(dead.buried),
                    dead.attempts,
                    key.map(readable).unwrap_or_default(),
                    readable(dead.error.as_bytes()),
                    in_brackets("group ", dead.group.as_deref()),
                    in_brackets("kind ", dead.kind.as_deref()),
                    in_brackets("", dead.schedule.as_deref()),
                    urgent(dead.urgent),
                    below(failures.as_deref())
                )
            },
            || {
                with_failures(
                    failures.as_deref(),
                    json!({
                        "id": dead.id.as_u64(),
                        "buried": shown(dead.buried),
                        "attempts": dead.attempts,
                        "key": key.map(exact),
                        "error": dead.error,
                        "group": dead.group,
                        "kind": dead.kind,
                        "schedule": dead.schedule,
                        "urgent": dead.urgent,
                    }),
                )
            },
        )
    }

    pub(crate) fn done(self, job: &DoneJob) -> io::Result<()> {
        let id = job.id.as_u64();
        let [finished, until] = [job.finished, job.until].map(shown);
        let size = job.result.as_ref().map(Vec::len);
        self.line(
            || {
                let size = size.map_or("no result".to_owned(), |size| format!("result of {size} bytes"));
                let (attempts, took) = (job.attempts, length(job.took));
                format!("{id} done {finished}, attempt {attempts} took {took}, {size}, kept until {until}")
            },
            || {
                json!({
                    "id": id,
                    "state": "done",
                    "finished": finished,
                    "took_seconds": job.took.as_secs_f64(),
                    "attempts": job.attempts,
                    "key": job.key.as_deref().map(exact),
                    "kind": job.kind,
                    "until": until,
                    "result_bytes": size,
                })
            },
        )
    }

    /// A dead letter, of which only the error is known.
    pub(crate) fn failed(self, id: u64, error: &str) -> io::Result<()> {
        self.line(
            || format!("{id} dead: {}", readable(error.as_bytes())),
            || json!({ "id": id, "state": "dead", "error": error }),
        )
    }

    pub(crate) fn limit(self, limit: &Limit) -> io::Result<()> {
        match limit {
            Limit::Groups(Groups::Ordered) => {
                self.line(|| "ordered".to_owned(), || json!({ "limit": "ordered" }))
            }
            Limit::Groups(Groups::Concurrency(most)) => self.line(
                || format!("per-group {most}"),
                || json!({ "limit": "per-group", "most": most }),
            ),
            Limit::Groups(Groups::Fair) => {
                self.line(|| "fair".to_owned(), || json!({ "limit": "fair" }))
            }
            Limit::PerKind { kind, most } => self.line(
                || format!("per-kind {} {most}", word(kind)),
                || json!({ "limit": "per-kind", "kind": kind, "most": most }),
            ),
            Limit::RateOfKind { kind, rate } => {
                let (kind, jobs, per) = (&**kind, rate.jobs(), rate.per());
                self.line(
                    || {
                        let (kind, per) = (word(kind), length(per));
                        format!("rate-of-kind {kind} {jobs} --per {per}")
                    },
                    || {
                        json!({
                            "limit": "rate-of-kind",
                            "kind": kind,
                            "jobs": jobs,
                            "per_seconds": per.as_secs_f64(),
                        })
                    },
                )
            }
            // Of a later version of the library.
            other => {
                let other = format!("{other:?}");
                self.line(|| other.clone(), || json!({ "limit": other }))
            }
        }
    }

    pub(crate) fn stats(self, stats: &StoreStats) -> io::Result<()> {
        let StoreStats {
            jobs,
            due,
            dead,
            ref due_of_kinds,
            paused,
        } = *stats;
        self.line(
            || {
                let count = |count: u32| match count {
                    COUNT_LIMIT => format!("{count} or more"),
                    _ => count.to_string(),
                };
                let paused = if paused { ", paused" } else { "" };
                let [jobs, due, dead] = [jobs, due, dead].map(count);
                let shown = |(kind, due): &(String, u32)| {
                    format!("\n{}  {}", count(*due), readable(kind.as_bytes()))
                };
                let kinds: String = due_of_kinds.iter().map(shown).collect();
                let title = if kinds.is_empty() {
                    ""
                } else {
                    "\nDue by kind:"
                };
                format!("{jobs} jobs, {due} of them due, {dead} dead letters{paused}{title}{kinds}")
            },
            || {
                json!({
                    "jobs": jobs,
                    "due": due,
                    "dead": dead,
                    "due_of_kinds": due_of_kinds.iter().cloned().collect::<BTreeMap<_, _>>(),
                    "limit": COUNT_LIMIT,
                    "paused": paused,
                })
            },
        )
    }
}

/// Writes the bytes and nothing else.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(bytes)?;
    output.flush()
}

/// Returns a group, a kind or a schedule as text for the end of a line.
fn in_brackets(what: &str, text: Option<&str>) -> String {
    let shown = text.map(|text| readable(format!("  ({what}{text})").as_bytes()));
    shown.unwrap_or_default()
}

/// Returns the text for the end of a line.
fn urgent(is_urgent: bool) -> &'static str {
    if is_urgent { "  (urgent)" } else { "" }
}

/// Returns the text for the end of a line.
fn cancelled(is_cancelled: bool) -> &'static str {
    if is_cancelled { "  (cancelled)" } else { "" }
}

/// Returns the lines below that of a job: one for each failed attempt.
fn below(failures: Option<&[Failure]>) -> String {
    let failures = failures.unwrap_or_default().iter();
    let lines = failures.map(|it| {
        let error = readable(it.error.as_bytes());
        format!(
            "\n{:>14}{}  attempt {}: {error}",
            "",
            shown(it.at),
            it.attempt
        )
    });
    lines.collect()
}

/// Adds the failed attempts to a job.
fn with_failures(failures: Option<&[Failure]>, mut job: Value) -> Value {
    if let Some(failures) = failures {
        let all = failures.iter().map(|it| {
            json!({
                "at": shown(it.at),
                "attempt": it.attempt,
                "error": it.error,
            })
        });
        job["failures"] = all.collect();
    }
    job
}

/// Returns text without line breaks and control characters.
fn readable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

/// Like `readable`, and with quotation marks if there are spaces.
fn word(text: &str) -> String {
    if text.contains(' ') {
        format!("{text:?}")
    } else {
        readable(text.as_bytes())
    }
}

/// Returns UTF-8 text as a string, and other bytes as a list of numbers.
fn exact(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.into(),
    }
}
