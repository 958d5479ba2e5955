//! A priority queue over `0..n` without duplicates: a bit per number and a cursor.

/// Numbers still to be worked on, smallest first.
#[derive(Clone, Debug)]
pub(crate) struct Worklist {
    words: Vec<u64>,
    first: usize,
}

impl Worklist {
    /// All of `0..count`.
    pub(crate) fn full(count: usize) -> Self {
        let mut words = vec![u64::MAX; count.div_ceil(64)];
        if let Some(last) = words.last_mut()
            && !count.is_multiple_of(64)
        {
            *last = (1 << (count % 64)) - 1;
        }
        Self { words, first: 0 }
    }
    /// Adds a number; nothing happens if it is there already.
    pub(crate) fn push(&mut self, number: u32) {
        let word = number as usize / 64;
        self.words[word] |= 1 << (number % 64);
        self.first = self.first.min(word);
    }
    /// Removes and returns the smallest number.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        while *self.words.get(self.first)? == 0 {
            self.first += 1;
        }
        let word = &mut self.words[self.first];
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some(self.first as u32 * 64 + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_first_each_once_and_backwards_pushes() {
        let mut work = Worklist::full(130);
        let first: Vec<u32> = (0..129).map_while(|_| work.pop()).collect();
        assert_eq!(first, (0..129).collect::<Vec<_>>());
        work.push(3);
        work.push(3);
        work.push(70);
        assert_eq!([work.pop(), work.pop(), work.pop(), work.pop()], [Some(3), Some(70), Some(129), None]);
    }
}
