//! Requests the links: the pool of requests, the retries, and the summary.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use async_pool::AsyncPool;
use delay_queue::DelayQueue;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::runtime::Handle;
use walkdir::WalkDir;

use crate::args::Options;
use crate::client::{Answer, request};
use crate::links::Found;

const MOST_ATTEMPTS: u32 = 4;
/// Before the second attempt. Doubled before each further one.
const FIRST_DELAY: Duration = Duration::from_millis(50);

/// A link, and how often it has been requested.
struct Job {
    link: String,
    attempts: u32,
}

#[derive(Clone, Default)]
pub(crate) struct Summary {
    pub(crate) good: usize,
    pub(crate) broken: BTreeMap<String, String>,
    pub(crate) retries: usize,
}

pub(crate) struct Check {
    server: SocketAddr,
    timeout: Duration,
    pool: AsyncPool,
    retries: DelayQueue<Job>,
    /// Links that are not settled, and one for the walk.
    open: AtomicUsize,
    stopped_by: OnceLock<u8>,
    summary: Mutex<Summary>,
    progress: ProgressBar,
}

impl Check {
    pub(crate) fn new(
        options: &Options,
        server: SocketAddr,
        runtime: &Handle,
    ) -> Result<Self, Box<dyn Error>> {
        let runtime = runtime.clone();
        let pool = AsyncPool::builder()
            .name("requests")
            .capacity(options.jobs)
            .around_worker(move |run| {
                let _entered = runtime.enter();
                run();
            })
            .build()?;
        let style = ProgressStyle::with_template("{bar:40} {pos} of {len} links ({per_sec})")?;
        // Drawn at most ten times per second, and only on a terminal.
        let progress =
            ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
        Ok(Self {
            server,
            timeout: options.timeout,
            pool,
            retries: DelayQueue::new(),
            open: AtomicUsize::new(1),
            stopped_by: OnceLock::new(),
            summary: Mutex::default(),
            progress: progress.with_style(style),
        })
    }

    /// Checks all links and waits for the last request. Also returns why the walk ended early, if it did.
    pub(crate) fn run(self: &Arc<Self>, options: &Options) -> (Found, io::Result<()>) {
        let found = thread::scope(|scope| {
            let walk = scope.spawn(|| {
                let mut found = Found::default();
                let walked = self.walk(options, &mut found);
                self.close_one();
                (found, walked)
            });
            // Ends when the queue is closed.
            while let Ok(due) = self.retries.take() {
                self.submit(due.value);
            }
            walk.join()
        });
        self.pool.release();
        // The main thread is no worker of the pool, so the wait has no other outcome.
        _ = self.pool.wait_released();
        self.progress.finish_and_clear();
        found.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn walk(self: &Arc<Self>, options: &Options, found: &mut Found) -> io::Result<()> {
        let is_wanted = |entry: &walkdir::DirEntry| {
            let name = entry.file_name().to_string_lossy();
            let is_hidden = entry.depth() > 0 && name.starts_with('.');
            !is_hidden && !options.skip.iter().any(|skip| *skip == name)
        };
        let walk = WalkDir::new(&options.folder).sort_by_file_name();
        for entry in walk.into_iter().filter_entry(is_wanted) {
            let entry = entry?;
            if entry.file_type().is_dir() {
                continue;
            }
            let name = entry.path().strip_prefix(&options.folder);
            let name = name.map_err(io::Error::other)?;
            for link in found.read(entry.path(), name)? {
                if self.signal().is_some() {
                    return Ok(());
                }
                self.progress.inc_length(1);
                self.open.fetch_add(1, Relaxed); // Above zero: the walk counts as one.
                self.submit(Job { link, attempts: 0 });
            }
        }
        Ok(())
    }

    /// Waits for room in the pool.
    fn submit(self: &Arc<Self>, job: Job) {
        let check = Arc::clone(self);
        let request = async move { check.request(job).await };
        // Refused only by a pool that is released, which happens after the last submit.
        _ = self.pool.submit(request);
    }

    async fn request(&self, mut job: Job) {
        if self.signal().is_some() {
            return; // It waited for room while the signal came.
        }
        let answer = request(self.server, &job.link);
        let answer = match async_pool::timeout(self.timeout, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Answer::Later(error.to_string()),
            Err(elapsed) => Answer::Later(elapsed.to_string()),
        };
        job.attempts += 1;
        match answer {
            Answer::Good => self.settle(|summary| summary.good += 1),
            Answer::Later(_) if job.attempts < MOST_ATTEMPTS => {
                self.summary().retries += 1;
                let delay = FIRST_DELAY * 2_u32.pow(job.attempts - 1);
                // Closed by a signal: then the link is not checked.
                _ = self.retries.push(job, delay);
            }
            Answer::Later(why) | Answer::Broken(why) => {
                self.settle(|summary| _ = summary.broken.insert(job.link, why));
            }
        }
    }

    fn settle(&self, change: impl FnOnce(&mut Summary)) {
        change(&mut self.summary());
        self.progress.inc(1);
        self.close_one();
    }

    fn close_one(&self) {
        if self.open.fetch_sub(1, AcqRel) == 1 {
            self.retries.close();
        }
    }

    /// Stops after the open requests.
    pub(crate) fn stop(&self, signal: i32) {
        self.stopped_by
            .get_or_init(|| u8::try_from(signal).unwrap_or(0));
        self.progress
            .suspend(|| eprintln!("check-links: stopping; open requests are finished"));
        drop(self.retries.close_now());
    }

    /// Number of the signal that stopped the check.
    pub(crate) fn signal(&self) -> Option<u8> {
        self.stopped_by.get().copied()
    }

    pub(crate) fn summary(&self) -> MutexGuard<'_, Summary> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
