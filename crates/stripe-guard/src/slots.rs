//! How many requests may be under way at a destination, which can change while they are.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of one destination in this process.
pub struct Slots {
    free: Arc<Semaphore>,
    size: Mutex<Size>,
}

struct Size {
    /// How many there should be.
    wanted: u32,
    /// How many more there are: in use, and gone when they come back.
    over: u32,
}

impl Slots {
    /// So many slots, all free.
    pub fn new(count: u32) -> Self {
        Self { free: Arc::new(Semaphore::new(count as usize)), size: Mutex::new(Size { wanted: count, over: 0 }) }
    }

    /// Changes how many there are. What is in use stays so until it comes back.
    pub fn resize(&self, count: u32) {
        let mut size = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        let present = size.wanted + size.over;
        let excess = present.saturating_sub(count);
        self.free.add_permits(count.saturating_sub(present) as usize);
        let gone = self.free.forget_permits(excess as usize);
        *size = Size { wanted: count, over: excess - u32::try_from(gone).unwrap_or(excess) };
    }

    /// How many there are, with those that are gone when they come back.
    pub fn present(&self) -> u32 {
        let size = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        size.wanted + size.over
    }

    /// Returns when one is free.
    pub async fn wait(&self) {
        drop(self.free.acquire().await);
    }

    /// Takes those that are free now, and no more than `most`.
    pub fn take(self: &Arc<Self>, most: u32) -> Vec<Slot> {
        let one = || Arc::clone(&self.free).try_acquire_owned().ok();
        let taken = std::iter::from_fn(one).take(most as usize);
        taken.map(|permit| Slot { slots: Arc::clone(self), permit: Some(permit) }).collect()
    }
}

/// A slot in use; free again when it is dropped.
pub struct Slot {
    slots: Arc<Slots>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut size = self.slots.size.lock().unwrap_or_else(PoisonError::into_inner);
        if size.over > 0
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
            size.over -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_in_use_go_when_they_come_back() {
        let slots = Arc::new(Slots::new(4));
        let free = || slots.free.available_permits();
        let mut taken = slots.take(3);
        assert_eq!((taken.len(), slots.present(), free()), (3, 4, 1));
        slots.resize(1);
        assert_eq!((slots.present(), free()), (3, 0));
        taken.pop();
        assert_eq!((slots.present(), free()), (2, 0));
        slots.resize(2);
        assert_eq!((slots.present(), free()), (2, 0));
        taken.pop();
        assert_eq!((slots.present(), free()), (2, 1));
        slots.resize(0);
        taken.pop();
        assert_eq!((slots.present(), free()), (0, 0));
        slots.resize(5);
        assert_eq!((slots.present(), free(), slots.take(9).len()), (5, 5, 5));
    }
}
