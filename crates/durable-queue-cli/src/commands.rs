//! The commands, for any store.

use std::io::{self, BufRead, IsTerminal};
use std::time::Duration;

use durable_queue::store::Fate;
use durable_queue::{
    Cancelled, DurableQueue, JobId, Limit, Merge, Put, Reset, Schedule, ScheduleError, Store, When,
    Which,
};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;
use crate::flags::{self, Command, DeadLetters, Job, Lines, Listing, Most, Push, Show, Watch};
use crate::output::{self, Output};
use crate::times;

/// Maximum number of jobs per call of the store, which limits memory.
const BATCH: usize = 1_000;
/// Number of list entries read at a time.
const PAGE: u32 = 1_000;

type Queue<S> = DurableQueue<Vec<u8>, S>;

pub(crate) fn run<S: Store>(
    name: &str,
    store: S,
    command: &Command,
    output: Output,
) -> Result<(), Failure> {
    let queue = Queue::new(name, store);
    match command {
        Command::Push(flags) => push(&queue, flags, output),
        Command::List(flags) => list(&queue, flags, output),
        Command::Cancel(job) => cancel(&queue, which(job), output),
        Command::Reset(flags::Reset { job, time }) => {
            reset(&queue, which(job), times::when(time)?, output)
        }
        Command::Show(flags) => show(&queue, flags, output),
        Command::Dead(flags) => dead(&queue, flags, output),
        Command::Redrive(which) => {
            let redriven = of_dead(&queue, which, |ids| queue.redrive(ids))?;
            done(output, "redriven", redriven)
        }
        Command::Purge(which) => {
            let purged = of_dead(&queue, which, |ids| queue.delete_dead(ids))?;
            done(output, "purged", purged)
        }
        Command::Pause => Ok(queue.pause(true)?),
        Command::Resume => Ok(queue.pause(false)?),
        Command::Limits => {
            let limits = queue.limits()?;
            Ok(limits.iter().try_for_each(|limit| output.limit(limit))?)
        }
        Command::Limit(flags) => limit(&queue, flags),
        Command::Stats => Ok(output.stats(&queue.store_stats()?)?),
        Command::Watch(flags) => watch(&queue, flags, output),
    }
}

fn usage<T>(text: &str) -> Result<T, Failure> {
    Err(Failure::Usage(text.to_owned()))
}

fn nothing<T>(text: &str) -> Result<T, Failure> {
    Err(Failure::Nothing(text.to_owned()))
}

fn which(job: &Job) -> Which<'_> {
    match (job.id, &job.key) {
        (Some(id), _) => JobId::from_u64(id).into(),
        // The flags require one of the two.
        (None, key) => key.as_deref().unwrap_or_default().into(),
    }
}

/// Shows progress if standard error is a terminal.
fn progress() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {human_pos} jobs, {per_sec}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner().with_style(style)
}

fn push<S: Store>(queue: &Queue<S>, flags: &Push, output: Output) -> Result<(), Failure> {
    let Push {
        payloads,
        time,
        key,
        merge,
        cron,
        urgent,
        group,
    } = flags;
    let mut queue = queue.clone();
    if *urgent {
        queue = queue.urgent();
    }
    if let Some(group) = group {
        queue = queue.group(&**group);
    }
    let queue = &queue;
    let when = times::when(time)?;
    let bytes = |text: &String| text.clone().into_bytes();
    match (key, &payloads[..]) {
        (Some(key), [payload]) => {
            let put = if let Some(cron) = cron {
                let refused = |error: ScheduleError| Failure::Usage(format!("`{cron}`: {error}"));
                let schedule: Schedule = cron.parse().map_err(refused)?;
                queue.push_repeating(key, &schedule, bytes(payload))
            } else {
                queue.push_keyed(key, bytes(payload), when, policy(merge.as_deref())?)
            };
            let put = put.map_err(|error| error.error)?;
            let what = match put {
                Put::New(_) => "new",
                Put::Merged(_) => "merged",
                Put::Kept(_) => "kept",
            };
            Ok(output.id(put.id().as_u64(), what)?)
        }
        (Some(_), _) => usage("a push with a key requires exactly one payload"),
        (None, []) => push_all(queue, io::stdin().lock().split(b'\n'), when, output),
        (None, payloads) => push_all(queue, payloads.iter().map(|it| Ok(bytes(it))), when, output),
    }
}

fn policy(name: Option<&str>) -> Result<Merge, Failure> {
    match name {
        None | Some("keep") => Ok(Merge::Keep),
        Some("keep-until-done") => Ok(Merge::KeepUntilDone),
        Some("keep-done") => Ok(Merge::KeepDone),
        Some("earliest") => Ok(Merge::Earliest),
        Some("latest") => Ok(Merge::Latest),
        Some("debounce") => Ok(Merge::Debounce),
        Some(_) => {
            usage("--merge must be keep, keep-until-done, keep-done, earliest, latest or debounce")
        }
    }
}

/// Pushes in batches, each completely or not at all. Reports the jobs of completed batches even if a later
/// one fails.
fn push_all<S: Store>(
    queue: &Queue<S>,
    payloads: impl Iterator<Item = io::Result<Vec<u8>>>,
    when: When,
    output: Output,
) -> Result<(), Failure> {
    let bar = progress();
    let mut payloads = payloads.peekable();
    let mut pushed = 0;
    let mut push_batch = || -> Result<bool, Failure> {
        let batch = payloads.by_ref().take(BATCH);
        let batch = batch.map(|payload| Ok((payload?, when)));
        let batch: Vec<_> = batch.collect::<io::Result<_>>()?;
        if batch.is_empty() {
            return Ok(false);
        }
        pushed += queue.push_batch(batch).map_err(|error| error.error)?.len();
        bar.set_position(pushed as u64);
        Ok(true)
    };
    let ended = loop {
        match push_batch() {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(failure) => break Err(failure),
        }
    };
    bar.finish_and_clear();
    output.count("pushed", pushed)?;
    ended
}

/// Calls `page` with the position of the last entry, until a page is not full.
fn pages<T, P: Copy>(
    lines: &Lines,
    mut page: impl FnMut(Option<P>, u32) -> Result<Vec<T>, Failure>,
    position: impl Fn(&T) -> P,
    mut show: impl FnMut(&T) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut left = lines.most;
    let mut after = None;
    while left > 0 || lines.all {
        let wanted = if lines.all { PAGE } else { left.min(PAGE) };
        let entries = page(after, wanted)?;
        entries.iter().try_for_each(&mut show)?;
        let Some(last) = entries.last().filter(|_| entries.len() == wanted as usize) else {
            break;
        };
        after = Some(position(last));
        left = left.saturating_sub(wanted);
    }
    Ok(())
}

fn list<S: Store>(queue: &Queue<S>, flags: &Listing, output: Output) -> Result<(), Failure> {
    output.head("          ID  STATE      AT                           ATTEMPTS  KEY")?;
    pages(
        &flags.lines,
        |after, most| Ok(queue.list(after, most)?),
        durable_queue::store::ListedJob::position,
        |job| output.job(job, flags.failures),
    )
}

fn dead<S: Store>(queue: &Queue<S>, flags: &Listing, output: Output) -> Result<(), Failure> {
    output.head("          ID  BURIED                       ATTEMPTS  KEY  ERROR")?;
    pages(
        &flags.lines,
        |after, most| Ok(queue.dead(after, most)?),
        |dead| dead.id,
        |dead| output.dead(dead, flags.failures),
    )
}

fn show<S: Store>(queue: &Queue<S>, flags: &Show, output: Output) -> Result<(), Failure> {
    let Show { id, result } = *flags;
    if result && output.json {
        return usage("--result writes bytes, so it excludes --json");
    }
    match (queue.fate(JobId::from_u64(id))?, result) {
        (Fate::Gone, _) => nothing("there is no such job, or it is done and not kept"),
        (Fate::Open, false) => Ok(output.id(id, "open")?),
        (Fate::Open, true) => nothing("the job is not done"),
        (Fate::Dead { error }, false) => Ok(output.failed(id, &error)?),
        (Fate::Dead { .. }, true) => nothing("the job is a dead letter"),
        (Fate::Done(job), false) => Ok(output.done(&job)?),
        (Fate::Done(job), true) => match job.result {
            Some(result) => Ok(output::bytes(&result)?),
            None => nothing("the job's handler has set no result"),
        },
    }
}

fn cancel<S: Store>(queue: &Queue<S>, which: Which<'_>, output: Output) -> Result<(), Failure> {
    // Any bytes can be decoded, because the payload is `Vec<u8>`.
    let cancelled = queue.cancel(which).map_err(|error| match error {
        durable_queue::CancelError::Store(error) => Failure::Store(error),
        other => Failure::Nothing(other.to_string()),
    })?;
    match cancelled {
        Cancelled::Gone { .. } => Ok(output.count("cancelled", 1)?),
        Cancelled::Taken => nothing("a handler has it, and is asked to stop"),
        Cancelled::Never => nothing("there is no such job"),
    }
}

fn reset<S: Store>(
    queue: &Queue<S>,
    which: Which<'_>,
    when: When,
    output: Output,
) -> Result<(), Failure> {
    match queue.reset(which, when)? {
        Reset::Moved => Ok(output.count("moved", 1)?),
        Reset::Taken => nothing("a handler has it"),
        Reset::Never => nothing("there is no such job"),
    }
}

/// Applies `call` to the given dead letters, or to all.
fn of_dead<S: Store>(
    queue: &Queue<S>,
    which: &DeadLetters,
    mut act: impl FnMut(&[JobId]) -> durable_queue::store::Result<usize>,
) -> Result<usize, Failure> {
    let bar = progress();
    let mut count = 0;
    let mut done = |ids: &[JobId]| -> Result<(), Failure> {
        count += act(ids)?;
        bar.set_position(count as u64);
        Ok(())
    };
    for ids in which.ids.chunks(BATCH) {
        let ids: Vec<_> = ids.iter().copied().map(JobId::from_u64).collect();
        done(&ids)?;
    }
    if which.all {
        let mut after = None;
        loop {
            let dead = queue.dead(after, PAGE)?;
            let Some(last) = dead.last() else { break };
            after = Some(last.id);
            let ids: Vec<_> = dead.iter().map(|dead| dead.id).collect();
            done(&ids)?;
        }
    }
    bar.finish_and_clear();
    Ok(count)
}

fn done(output: Output, what: &str, count: usize) -> Result<(), Failure> {
    output.count(what, count)?;
    if count == 0 {
        return nothing("there is no such dead letter, or its key has an open job");
    }
    Ok(())
}

fn limit<S: Store>(queue: &Queue<S>, flags: &flags::Limit) -> Result<(), Failure> {
    // A removal ignores the figures.
    let figure = |most: &Most| most.most.unwrap_or(1);
    let (limit, off) = match flags {
        flags::Limit::Ordered(rule) => (Limit::ordered(), rule.off),
        flags::Limit::PerGroup(rule) => (Limit::per_group(rule.most.unwrap_or(1)), rule.off),
        flags::Limit::Fair(rule) => (Limit::fair(), rule.off),
        flags::Limit::PerKind { kind, most } => (Limit::per_kind(kind, figure(most)), most.off),
        flags::Limit::RateOfKind {
            kind,
            jobs,
            per,
            off,
        } => {
            let per = per.as_deref().map(times::span).transpose()?;
            if per.is_some_and(|per| per.is_zero()) {
                return usage("--per must be longer than 0s");
            }
            let (jobs, per) = (jobs.unwrap_or(1), per.unwrap_or_default());
            (Limit::rate_of_kind(kind, jobs, per), *off)
        }
    };
    if off {
        Ok(queue.remove_limit(&limit)?)
    } else {
        Ok(queue.limit(&limit)?)
    }
}

fn watch<S: Store>(queue: &Queue<S>, flags: &Watch, output: Output) -> Result<(), Failure> {
    let every = times::span(&flags.every)?;
    loop {
        output.stats(&queue.store_stats()?)?;
        if flags.once {
            return Ok(());
        }
        pause(every);
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock is only used to print")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
