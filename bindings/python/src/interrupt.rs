//! Work that takes long: Ctrl-C ends it, and it is reported how far it has come.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use pyo3::{Bound, Py, PyAny, PyErr, PyResult, Python, types::PyAnyMethods};
use verimount::{Error, Progress};
use verimount_sync::Mutex;

use crate::errors::{OrRaise, panicked};

/// How long until Ctrl-C is noticed, and between reports.
const INTERVAL: Duration = Duration::from_millis(50);

/// What a thread that works tells the one that waits for it.
enum Event<T> {
    /// How far it has come. It waits for an answer.
    Progress(Progress),
    Done(T),
}

/// What becomes of work after Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterInterrupt {
    /// It ends soon, and may have to clean up: that is waited for, until the next Ctrl-C.
    Wait,
    /// It may wait long for another machine: it is left alone, and what it returns is dropped.
    Leave,
}

/// Tells the one who waits how far the work has come, and hears from it whether to go on.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    reports: Option<Mutex<Reports>>,
}

struct Reports {
    last: Option<Instant>,
    send: Box<dyn Fn(Progress) -> bool + Send>,
    answers: Receiver<ControlFlow<()>>,
}

impl Watch {
    /// What the library calls.
    pub(crate) fn watch(&self, progress: Progress) -> ControlFlow<()> {
        if self.stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        match &self.reports {
            Some(reports) => reports.lock().report(progress),
            None => ControlFlow::Continue(()),
        }
    }
}

impl Reports {
    /// The first, the last, and few of those between.
    fn report(&mut self, progress: Progress) -> ControlFlow<()> {
        let is_last = progress.done == progress.total;
        let waits = |last: Instant| !is_last && last.elapsed() < INTERVAL;
        if self.last.is_some_and(waits) {
            return ControlFlow::Continue(());
        }
        let is_sent = (self.send)(progress);
        self.last = Some(Instant::now());
        if is_sent {
            self.answers.recv().unwrap_or(ControlFlow::Break(()))
        } else {
            // Nobody waits any more.
            ControlFlow::Break(())
        }
    }
}

/// Does `work` in a thread of its own. Meanwhile this one, without the interpreter's lock, waits for it, for signals, and
/// for reports, which it gives to `callback`: if that returns `False` or raises, the work ends.
///
/// # Errors
/// What the callback or the handler of a signal raised, and the exception of the work's error.
pub(crate) fn run<T, W>(
    py: Python<'_>,
    callback: Option<&Bound<'_, PyAny>>,
    after: AfterInterrupt,
    work: W,
) -> PyResult<T>
where
    T: Send + 'static,
    W: FnOnce(Watch) -> Result<T, Error> + Send + 'static,
{
    let stop = Arc::new(AtomicBool::new(false));
    let (events, receiver) = channel();
    let (answer, answers) = channel();
    let watch = Watch {
        stop: stop.clone(),
        reports: callback.map(|_| Mutex::new(reports(events.clone(), answers))),
    };
    let name = thread::Builder::new().name("verimount".to_owned());
    name.spawn(move || {
        let done = work(watch);
        // It may have been left alone.
        let _ = events.send(Event::Done(done));
    })?;
    let waiting = Waiting {
        receiver,
        answer,
        stop,
        after,
        callback: callback.map(|callback| callback.clone().unbind()),
        raised: None,
        is_interrupted: false,
    };
    waiting.wait(py)?.or_raise(py)
}

fn reports<T: Send + 'static>(
    events: Sender<Event<T>>,
    answers: Receiver<ControlFlow<()>>,
) -> Reports {
    Reports {
        last: None,
        send: Box::new(move |progress| events.send(Event::Progress(progress)).is_ok()),
        answers,
    }
}

/// Who waits for work.
struct Waiting<T> {
    receiver: Receiver<Event<T>>,
    answer: Sender<ControlFlow<()>>,
    stop: Arc<AtomicBool>,
    after: AfterInterrupt,
    callback: Option<Py<PyAny>>,
    /// Why the work is to end: what the callback or the handler of a signal has raised.
    raised: Option<PyErr>,
    /// Whether a signal has ended it, so that the next one does not wait.
    is_interrupted: bool,
}

impl<T: Send> Waiting<T> {
    fn wait(mut self, py: Python<'_>) -> PyResult<T> {
        loop {
            let received;
            (self.receiver, received) = receive(py, self.receiver);
            match received {
                Ok(Event::Done(done)) => return self.raised.map_or(Ok(done), Err),
                Ok(Event::Progress(progress)) => self.report(py, progress),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
            }
            if let Err(signal) = py.check_signals() {
                self.stop.store(true, Ordering::Relaxed);
                if self.after == AfterInterrupt::Leave || self.is_interrupted {
                    return Err(signal);
                }
                self.is_interrupted = true;
                self.raised = Some(signal);
            }
        }
    }

    fn report(&mut self, py: Python<'_>, progress: Progress) {
        let called = match self.raised {
            None => self.call(py, progress),
            Some(_) => Ok(ControlFlow::Break(())),
        };
        let answer = called.unwrap_or_else(|raised| {
            self.raised = Some(raised);
            ControlFlow::Break(())
        });
        // The work may have ended for another reason.
        let _ = self.answer.send(answer);
    }

    fn call(&self, py: Python<'_>, progress: Progress) -> PyResult<ControlFlow<()>> {
        let Some(callback) = &self.callback else {
            return Ok(ControlFlow::Continue(()));
        };
        let step = format!("{:?}", progress.step).to_lowercase();
        let returned = callback
            .bind(py)
            .call1((step, progress.done, progress.total))?;
        // Only `False`: most callbacks return nothing.
        let ends = returned.is(pyo3::types::PyBool::new(py, false));
        Ok(if ends {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }
}

/// The receiver goes along, as only one thread at a time may have it.
fn receive<T: Send>(
    py: Python<'_>,
    receiver: Receiver<T>,
) -> (Receiver<T>, Result<T, RecvTimeoutError>) {
    py.detach(move || {
        let received = receiver.recv_timeout(INTERVAL);
        (receiver, received)
    })
}

/// Does work that is not reported, without the interpreter's lock. Only what is slow can be interrupted.
///
/// # Errors
/// What the handler of a signal raised, and the exception of the work's error.
pub(crate) fn ask<T, W>(py: Python<'_>, is_slow: bool, work: W) -> PyResult<T>
where
    T: Send + 'static,
    W: FnOnce() -> Result<T, Error> + Send + 'static,
{
    if is_slow {
        run(py, None, AfterInterrupt::Leave, |_| work())
    } else {
        py.detach(work).or_raise(py)
    }
}
