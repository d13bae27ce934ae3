//! Orders with their timeouts and e-mails, on a store and in a folder.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fmt, fs};

use durable_queue::{Claimed, StoreTime, Worker};

use crate::books::{Books, Change};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

const HANDLERS: usize = 4;

pub(crate) struct Shop<B> {
    books: Arc<B>,
    folder: PathBuf,
    time_to_pay: Duration,
}

/// Handlers of both queues. They end when this is dropped.
pub(crate) struct Workers<B: Books> {
    _timeouts: Worker<String, B::Store>,
    _mails: Worker<String, B::Store>,
}

/// A written e-mail.
#[derive(Clone)]
pub(crate) struct Mail {
    order: String,
    state: String,
    /// The lateness of the expiry, if the order expired.
    pub(crate) late: Option<Duration>,
}

impl fmt::Display for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.order, self.state)?;
        match self.late {
            Some(late) => write!(f, " {}", late.as_micros()),
            None => Ok(()),
        }
    }
}

impl<B: Books> Shop<B> {
    pub(crate) fn new(books: B, folder: &Path, time_to_pay: Duration) -> Self {
        Self {
            books: Arc::new(books),
            folder: folder.to_owned(),
            time_to_pay,
        }
    }

    pub(crate) fn order(&self) -> Result<i64, Failure> {
        self.books.order(self.time_to_pay)
    }

    /// Returns whether the payment was in time.
    pub(crate) fn pay(&self, order: i64) -> Result<bool, Failure> {
        let was_open = self.books.settle(order, &Change::Paid)?;
        if was_open {
            // Not required: the handler would find the order paid. The cancel only saves its work.
            let timeouts = &self.books.queues().timeouts;
            let _cancelled = timeouts.cancel(order.to_string().as_str())?;
        }
        Ok(was_open)
    }

    pub(crate) fn state(&self, order: i64) -> Result<Option<String>, Failure> {
        self.books.state(order)
    }

    /// Starts the handlers. `written` is called for each e-mail after its file was written.
    pub(crate) fn work(
        &self,
        written: impl Fn(&Mail) + Send + Sync + 'static,
    ) -> Result<Workers<B>, Failure> {
        let queues = self.books.queues();
        let books = Arc::clone(&self.books);
        let timeouts = Worker::builder(queues.timeouts.clone())
            .concurrency(HANDLERS)
            .start(move |job| expire(&*books, job))?;
        let folder = self.folder.clone();
        let mails = Worker::builder(queues.mails.clone())
            .concurrency(HANDLERS)
            .start(move |job: &Claimed<String>| {
                let mail = Mail::parse(job)?;
                mail.write(&folder)?;
                written(&mail);
                Ok::<_, Failure>(())
            })?;
        Ok(Workers {
            _timeouts: timeouts,
            _mails: mails,
        })
    }
}

fn expire(books: &impl Books, job: &Claimed<String>) -> Result<(), Failure> {
    let now = StoreTime::from(SystemTime::now());
    let change = if now < job.due() {
        Change::ExpiredEarly
    } else {
        Change::Expired(now.since(job.due()))
    };
    books.settle(job.parse()?, &change)?;
    Ok(())
}

impl Mail {
    fn parse(text: &str) -> Result<Self, Failure> {
        let mut words = text.split(' ').map(str::to_owned);
        let (Some(order), Some(state)) = (words.next(), words.next()) else {
            return Err("an e-mail without a state".into());
        };
        let late = words.next().map(|micros| micros.parse()).transpose()?;
        Ok(Self {
            order,
            state,
            late: late.map(Duration::from_micros),
        })
    }

    /// Renames the complete file to its name, so that a killed process leaves no partial file.
    fn write(&self, folder: &Path) -> Result<(), Failure> {
        let file = folder.join(format!("{}.mail", self.order));
        // Two handlers may write it at a time, if one of them has lost its lease.
        let draft = file.with_extension(format!("{:?}.draft", std::thread::current().id()));
        fs::write(&draft, self.to_string())?;
        fs::rename(draft, file)?;
        Ok(())
    }
}
