//! The XLA referee as the tests use it: set up its environment, start one batch process, ask and get answers in order.

use std::io::{BufRead as _, BufReader, Write as _};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use serde_json::{Value, json};

/// The folder of the referee's programs.
fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/referee")
}

/// A folder for files that belong to one test.
pub(crate) fn workspace(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("referee").join(test);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("a folder of ours can be removed");
    }
    std::fs::create_dir_all(&folder).expect("a folder of ours can be made");
    folder
}

/// The interpreter of the referee's environment, which is made when it is missing. Without it nothing can be said about XLA, so the test
/// that asks fails.
pub(crate) fn python() -> PathBuf {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| environment("tests/referee/requirements.txt", "referee-venv")).clone()
}

/// The interpreter of an environment with the packages of a list (relative to the root), in a folder beside the build.
pub(crate) fn environment(requirements: &str, folder: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder has a parent");
    let output = Command::new("sh")
        .arg(home().join("setup.sh"))
        .arg(target.join(folder))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(requirements))
        .output()
        .expect("a shell runs setup.sh");
    assert!(
        output.status.success(),
        "\nThe XLA referee could not be set up, so nothing was compared with XLA.\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

/// A program of the referee, ready to run.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(python());
    command.arg(home().join(name)).stdin(Stdio::null());
    command
}

/// A running batch process.
pub(crate) struct Session {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Session {
    /// Starts the process.
    pub(crate) fn start() -> Self {
        let mut child = program("referee.py")
            .arg("batch")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the interpreter that setup.sh named starts");
        let answers = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        Self { child, answers }
    }

    /// Asks everything at once and gives the answers in the order of the questions. An answer that is an error fails the test.
    pub(crate) fn ask(&mut self, requests: &[Value]) -> Vec<Value> {
        let Self { child, answers } = self;
        let stdin = child.stdin.as_mut().expect("standard input is a pipe");
        // The referee answers while it reads: writing and reading in turn could block both sides. Nothing fails before both are
        // done, for the same reason.
        let lines: Vec<_> = thread::scope(|scope| {
            scope.spawn(move || requests.iter().try_for_each(|request| writeln!(stdin, "{request}")));
            answers.lines().take(requests.len()).map_while(Result::ok).collect()
        });
        assert_eq!(
            lines.len(),
            requests.len(),
            "the referee ended after {}",
            lines.last().map_or("nothing", |last| last)
        );
        requests.iter().zip(&lines).map(|(request, line)| answer(request, line)).collect()
    }

    /// Bytes that XLA needs for each file.
    pub(crate) fn totals(&mut self, files: &[PathBuf]) -> Vec<u64> {
        let requests: Vec<_> = files.iter().map(|file| json!({"cmd": "peak", "file": file})).collect();
        let answers = self.ask(&requests);
        answers.iter().map(|answer| answer["total_bytes"].as_u64().expect("a number of bytes")).collect()
    }
}

/// The same, asked of one process for each core.
pub(crate) fn ask_on_all_cores(requests: &[Value]) -> Vec<Value> {
    let processes = thread::available_parallelism().map_or(1, usize::from);
    let mut shares: Vec<_> = thread::scope(|scope| {
        let share = |first| {
            let requests: Vec<Value> = requests.iter().skip(first).step_by(processes).cloned().collect();
            scope.spawn(move || Session::start().ask(&requests).into_iter())
        };
        let threads: Vec<_> = (0..processes).map(share).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    // Each process answers every second question of two, every third of three.
    (0..requests.len()).filter_map(|at| shares[at % processes].next()).collect()
}

/// The answer in `line` to `request`.
fn answer(request: &Value, line: &str) -> Value {
    let answer: Value = serde_json::from_str(line).expect("the referee speaks JSON");
    assert!(answer.get("error").is_none(), "XLA refuses {request}:\n{}", answer["error"].as_str().unwrap_or("?"));
    answer
}

impl Drop for Session {
    fn drop(&mut self) {
        // End of input ends the batch; the exit code says nothing that the answers did not.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
