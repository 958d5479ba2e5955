//! A line on the terminal for runs that take longer than a second; nothing anywhere else.

// Tests: `tests/cli.rs`.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Runs shorter than this show nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two updates of the line.
const BEAT: Duration = Duration::from_millis(200);

/// Shows what is going on until it is dropped.
pub(crate) struct Progress {
    stages: Option<Sender<String>>,
    painter: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins to wait; silent when `quiet` or when standard error is no terminal.
    pub(crate) fn start(quiet: bool) -> Self {
        if quiet || !io::stderr().is_terminal() {
            return Self { stages: None, painter: None };
        }
        let (stages, received) = mpsc::channel();
        let painter = thread::spawn(move || paint(&received));
        Self { stages: Some(stages), painter: Some(painter) }
    }

    /// Says what begins now.
    pub(crate) fn stage(&self, what: &str) {
        if let Some(stages) = &self.stages {
            // The painter ends only after this sender is gone.
            let _ = stages.send(what.to_owned());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stages = None;
        if let Some(painter) = self.painter.take() {
            let _ = painter.join();
        }
    }
}

/// Repaints the line until the sender is dropped, then clears it. A terminal that cannot be written to is not an error of the run.
fn paint(stages: &mpsc::Receiver<String>) {
    let start = Instant::now();
    let mut stage = "starting".to_owned();
    let mut painted = false;
    loop {
        match stages.recv_timeout(BEAT) {
            Ok(next) => stage = next,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if start.elapsed() >= PATIENCE {
            let _ = write!(io::stderr(), "\r\u{1b}[Khlo-opt: {stage}, {:.0} s", start.elapsed().as_secs_f32());
            painted = true;
        }
    }
    if painted {
        let _ = write!(io::stderr(), "\r\u{1b}[K");
    }
}
