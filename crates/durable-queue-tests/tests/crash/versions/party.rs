//! A process of one version: it carries out the driver's commands, one per line of standard input, and
//! answers each with a line.

use std::borrow::Cow;
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dedup_queue::Exponential;
use durable_queue::internals::LONGEST_BACK_OFF;
use durable_queue::{
    Cancelled, Claimed, DecodeError, DurableQueue, EncodeError, JobId, Limit, Merge, Payload, Put,
    Reset, SettleError, ShutDown, Store, Which, Worker,
};

use crate::place::Role;
use crate::version;
use crate::worker::{Diary, now, pause};

/// The first argument of such a process.
pub(crate) const MODE: &str = "work-as-told";
/// The key and the label of the job that repeats each second.
pub(super) const TICK: &str = "tick";
/// The longest time that a shutdown may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long before their due times jobs are claimed.
const HORIZON: Duration = Duration::from_secs(3);
/// The delay of a failed job: long enough for another process to start in the meantime, on most machines.
const RETRY: Duration = Duration::from_millis(1_500);
/// The first delay of a job that has failed. It doubles each time.
const BACK_OFF: Duration = Duration::from_millis(200);
/// A process of the older version may take such a job again and again.
const ATTEMPTS: u32 = 1_000;
/// Handlers of a process per queue: more than the number of jobs that wait for a [`gate`].
const HANDLERS: usize = 8;

/// A job's payload: `KIND-NUMBER`, and `serial.GROUP-NUMBER` if the order within the group is checked.
///
/// The application's older version does not know the kind `new`.
struct Label<const KNOWS_NEW: bool>(String);

impl<const KNOWS_NEW: bool> Payload for Label<KNOWS_NEW> {
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        self.0.encode()
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        let label = String::decode(bytes)?;
        if !KNOWS_NEW && kind(&label) == "new" {
            return Err(DecodeError::new("an unknown variant"));
        }
        Ok(Self(label))
    }
}

/// Returns the kind, which determines what the handler does.
pub(super) fn kind(label: &str) -> &str {
    label.split(['.', '-']).next().unwrap_or_default()
}

/// The file that lets the job's handler continue. If it does not exist, the handler of a buried kind buries
/// the job.
pub(super) fn gate(folder: &Path, label: &str) -> PathBuf {
    folder.join(format!("{label}.gate"))
}

/// A process that carries out the driver's commands.
pub(crate) struct Party<'a> {
    pub(crate) folder: &'a Path,
    /// Name of the process.
    pub(crate) name: &'a str,
    /// Whether its application has the new variant of the payload.
    pub(crate) knows_new: bool,
}

impl Role for Party<'_> {
    fn play<S: Store + Clone>(self, store: S) {
        if self.knows_new {
            serve::<true, S>(&self, &store);
        } else {
            serve::<false, S>(&self, &store);
        }
    }
}

fn serve<const NEW: bool, S: Store + Clone>(party: &Party<'_>, store: &S) {
    let diary = Diary::of(party.folder, party.name);
    let mut process = Process::<NEW, S> {
        queues: ["jobs", "serial"].map(|name| {
            let diary = diary.clone();
            let queue = DurableQueue::builder(name, store.clone())
                .horizon(HORIZON)
                .back_off(Exponential::new(BACK_OFF, LONGEST_BACK_OFF))
                .max_attempts(ATTEMPTS)
                .on_error(move |error| diary.write(&format!("error {error:?}")));
            queue.build().unwrap()
        }),
        site: Site {
            folder: party.folder.to_owned(),
            diary,
        },
        takers: Vec::new(),
        worker: None,
    };
    process.queues[1].limit(&Limit::ordered()).unwrap();
    answer("open");
    for line in io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        answer(&process.carry_out(&words));
    }
}

fn answer(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// Context of the handlers.
#[derive(Clone)]
struct Site {
    folder: PathBuf,
    diary: Diary,
}

struct Process<const NEW: bool, S: Store> {
    /// Threads of this process take and acknowledge jobs of the first queue. A [`Worker`] takes those of the
    /// second one, whose groups are ordered.
    queues: [DurableQueue<Label<NEW>, S>; 2],
    site: Site,
    takers: Vec<JoinHandle<()>>,
    worker: Option<Worker<Label<NEW>, S>>,
}

impl<const NEW: bool, S: Store> Process<NEW, S> {
    fn carry_out(&mut self, words: &[&str]) -> String {
        let queue = |name: &str| &self.queues[usize::from(name == "serial")];
        let id = |id: &str| JobId::from_u64(u64::from_str(id).unwrap());
        match *words {
            ["push", name, delay, urgency, key, label] => {
                let delay = Duration::from_millis(delay.parse().unwrap());
                let queue = queue(name);
                let urgent = queue.urgent();
                let queue = if urgency == "urgent" { &urgent } else { queue };
                let label = Label(label.to_owned());
                let put = if key == "-" {
                    queue.push(label, delay).map(Put::New)
                } else if name == "serial" {
                    queue.group(key).push(label, delay).map(Put::New)
                } else {
                    queue.push_keyed(key, label, delay, Merge::Earliest)
                };
                match put.unwrap() {
                    Put::New(id) => format!("new {id}"),
                    Put::Merged(id) => format!("merged {id}"),
                    Put::Kept(id) => format!("kept {id}"),
                }
            }
            ["repeat"] => {
                let schedule = "* * * * * *".parse().unwrap();
                let tick = Label(TICK.to_owned());
                self.note_of_old("pushing");
                let pushed = self.queues[0].push_repeating(TICK, &schedule, tick);
                self.note_of_old("pushed");
                pushed.unwrap();
                "ok".to_owned()
            }
            ["take"] => {
                self.take();
                "ok".to_owned()
            }
            ["cancel", name, job] => match queue(name).cancel(id(job)).unwrap() {
                Cancelled::Gone { .. } => "gone",
                Cancelled::Taken => "taken",
                Cancelled::Never => "never",
            }
            .to_owned(),
            ["reset", name, job] => match queue(name)
                .reset(Which::Id(id(job)), Duration::ZERO)
                .unwrap()
            {
                Reset::Moved => "moved",
                Reset::Taken => "taken",
                Reset::Never => "never",
            }
            .to_owned(),
            ["dead", name] => {
                let dead = queue(name).dead(None, 1_000).unwrap();
                let ids: Vec<String> = dead.iter().map(|job| job.id.to_string()).collect();
                ids.join(" ")
            }
            ["redrive", name, job] => queue(name).redrive(&[id(job)]).unwrap().to_string(),
            ["state", name, job] => {
                let jobs = queue(name).list(None, 1_000).unwrap();
                let job = jobs.iter().find(|listed| listed.id == id(job));
                job.map_or_else(
                    || "none 0".to_owned(),
                    |job| format!("{:?} {}", job.state, job.failures().len()),
                )
            }
            ["left", name] => {
                let jobs = queue(name).list(None, 1_000).unwrap();
                let keys = jobs.iter().map(|job| {
                    let key = job.key.as_deref().unwrap_or(b"-");
                    String::from_utf8_lossy(key).into_owned()
                });
                keys.collect::<Vec<_>>().join(" ")
            }
            ["quit"] => {
                self.quit();
                "finished".to_owned()
            }
            _ => panic!("no process knows `{words:?}`"),
        }
    }

    /// See [`Ledger::faults_of_ticks`](super::ledger::Ledger).
    fn note_of_old(&self, event: &str) {
        if !NEW {
            self.site.note(event, TICK, 0);
        }
    }

    fn take(&mut self) {
        for _ in 0..HANDLERS {
            let (queue, site) = (self.queues[0].clone(), self.site.clone());
            self.takers.push(thread::spawn(move || {
                while let Ok(job) = queue.take() {
                    site.handle_by_hand(job);
                }
            }));
        }
        let site = self.site.clone();
        let worker = Worker::builder(self.queues[1].clone()).concurrency(HANDLERS);
        let handler = move |job: &Claimed<Label<NEW>>| site.handle(job);
        self.worker = Some(worker.start(handler).unwrap());
    }

    fn quit(&mut self) {
        assert_eq!(self.queues[0].shutdown(PATIENCE), ShutDown::Finished);
        for taker in self.takers.drain(..) {
            taker.join().unwrap();
        }
        if let Some(worker) = self.worker.take() {
            assert_eq!(worker.shutdown(PATIENCE), ShutDown::Finished);
        }
    }
}

impl Site {
    fn write<const NEW: bool>(&self, event: &str, job: &Claimed<Label<NEW>>) {
        let (label, attempt, due) = (&job.0, job.attempt(), job.due().as_micros());
        let now = now();
        self.diary
            .write(&format!("{event} {label} {attempt} {due} {now}"));
    }

    /// Writes an entry that does not belong to a running job.
    fn note(&self, event: &str, label: &str, attempt: u32) {
        self.diary
            .write(&format!("{event} {label} {attempt} 0 {}", now()));
    }

    fn handle_by_hand<const NEW: bool>(&self, job: Claimed<Label<NEW>>) {
        self.write("started", &job);
        let label = job.0.clone();
        let attempt = job.attempt();
        let settled: Result<(), SettleError> = match kind(&label) {
            "retry" if attempt == 1 => {
                self.write("failed", &job);
                version::retry_after(job, RETRY)
            }
            "bury" if !gate(&self.folder, &label).exists() => {
                self.write("failed", &job);
                job.bury("as the driver wishes")
            }
            kind => {
                while kind == "hold" && !gate(&self.folder, &label).exists() {
                    pause(5);
                }
                self.write("ended", &job);
                job.ack()
            }
        };
        // The repeating job's next time was computed before this moment.
        let event = if settled.is_ok() {
            "settled"
        } else {
            "unsettled"
        };
        self.note(event, &label, attempt);
    }

    fn handle<const NEW: bool>(&self, job: &Claimed<Label<NEW>>) -> Result<(), &'static str> {
        self.write("started", job);
        // Another job of the key would start now if it could.
        pause(2);
        if kind(&job.0) == "stumble" && job.attempt() == 1 {
            self.write("failed", job);
            return Err("as the driver wishes");
        }
        self.write("ended", job);
        Ok(())
    }
}
