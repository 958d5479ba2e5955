//! The line of the user's own program that an instruction comes from.
//!
//! JAX records the whole call stack, whose innermost frame is often a line of a library (`flax/linen/linear.py`). What the user can change is the innermost
//! frame outside of installed packages; the library's own line is a detail beside it.

// Tests: `ir/tests/user_lines.rs`.

use smol_str::SmolStr;

use crate::{InstructionId, Module, SourceLine};

/// Folders of installed packages and of Python itself: where `pip` and Debian's packages put them.
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

/// Where an instruction was made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MadeAt {
    /// The innermost line of the user's own files; where the whole stack is one of libraries, the innermost of all.
    pub line: Option<SourceLine>,
    /// The innermost line, if it is another one, of a library.
    pub library: Option<SourceLine>,
}

impl Module {
    /// The line of the user's program that an instruction comes from, and that of the library called there.
    pub fn made_at(&self, id: InstructionId) -> MadeAt {
        let mut stack = self.source_stack(id).into_iter().map(|frame| frame.line).filter(|line| !line.file.is_empty());
        let Some(innermost) = stack.next() else { return MadeAt::default() };
        if self.is_users(&innermost.file) {
            return MadeAt { line: Some(innermost), library: None };
        }
        if self.instruction(id).metadata("stack_frame_id").is_none() {
            // The only line that is known is one of a library, such as the one in TensorFlow that makes every operation.
            return MadeAt { line: None, library: Some(innermost) };
        }
        match stack.find(|line| self.is_users(&line.file)) {
            Some(line) => MadeAt { line: Some(line), library: Some(innermost) },
            None => MadeAt { line: Some(innermost), library: None },
        }
    }

    /// Whether a file is the user's own: below the source root if one is set, else outside of installed packages and of Python itself.
    fn is_users(&self, file: &str) -> bool {
        match &self.stack_tables.source_root {
            Some(root) => below(file, root),
            None => !file.starts_with('<') && !file.split(['/', '\\']).any(is_of_packages),
        }
    }

    /// Files below `root`, and no others, are the user's own.
    pub fn set_source_root(&mut self, root: &str) {
        self.stack_tables.source_root = Some(SmolStr::new(root.trim_end_matches('/')));
    }
}

/// Whether a folder holds installed packages, or the standard library (`python3.11`).
fn is_of_packages(folder: &str) -> bool {
    let version = folder.strip_prefix("python3.").unwrap_or("");
    PACKAGES.contains(&folder) || !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit())
}

fn below(file: &str, root: &str) -> bool {
    file.strip_prefix(root).is_some_and(|rest| root.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    const STACK: &str = "HloModule m

FileNames
1 \"/model/train.py\"
2 \"/usr/lib/python3.12/site-packages/flax/linen/linear.py\"
3 \"/usr/lib/python3.12/functools.py\"

FunctionNames
1 \"f\"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7}
2 {file_name_id=2 function_name_id=1 line=700}
3 {file_name_id=3 function_name_id=1 line=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=3 parent_frame_id=2}
3 {file_location_id=2 parent_frame_id=3}
4 {file_location_id=2 parent_frame_id=1}

ENTRY %e {
  %a = f32[] parameter(0), metadata={stack_frame_id=3}
  %b = f32[] negate(%a), metadata={stack_frame_id=4}
  %c = f32[] negate(%b), metadata={source_file=\"/x/dist-packages/tensorflow/python/framework/ops.py\" source_line=1221}
  %d = f32[] negate(%c), metadata={source_file=\"/x/mine.py\" source_line=3}
  ROOT %f = f32[] negate(%d)
}
";

    fn lines(root: Option<&str>) -> Vec<(Option<i64>, Option<i64>)> {
        let mut module = text::parse(STACK).expect("it is legal");
        if let Some(root) = root {
            module.set_source_root(root);
        }
        let of = |line: Option<SourceLine>| line.map(|line| line.line);
        let at = module.live_instructions().map(|(id, _)| module.made_at(id));
        at.map(|at| (of(at.line), of(at.library))).collect()
    }

    #[test]
    fn the_innermost_frame_outside_of_packages_is_the_users() {
        let expected = [(Some(7), Some(700)), (Some(700), None), (None, Some(1221)), (Some(3), None), (None, None)];
        assert_eq!(lines(None), expected);
    }

    #[test]
    fn a_source_root_says_whose_files_count() {
        let flax = lines(Some("/usr/lib/python3.12/site-packages/flax"));
        assert_eq!(flax[0], (Some(700), None), "who works on a library sees its lines");
        assert_eq!(flax[3], (None, Some(3)));
        assert_eq!(lines(Some("/model/"))[0], (Some(7), Some(700)));
        assert_eq!(lines(Some("/mod"))[0], (Some(700), None), "no whole folder");
    }
}
