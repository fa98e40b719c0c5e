// The saves of a run, one after another, in one of three ways:
//
//   sync        training waits until the state is on the disk
//   async       training waits for a copy in host memory, which a thread then writes
//   overlapped  training goes on while the copy is made: an update of what has not left yet waits for it
//
// Thread: the one that trains.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/result/training.h"
#include "core/state/snapshot.h"
#include "core/state/state_folder.h"

namespace memtune::state {

struct SaveSettings {
  std::string how = "sync";        // config::kSaveModes
  int64_t keep_last = 0;           // states; 0: all
  bool activations_first = false;  // the link carries activations in forwards: most copies wait for the backward
};

class Saver {
 public:
  // `ended` is told of each save that has ended. Device and folder must outlive this.
  Saver(device::Device& device, StateFolder& folder, SaveSettings settings,
        std::function<void(const result::SavedStep&)> ended);
  // Waits for saves that are on their way; one whose copies were not sent fails.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Takes host memory for a state of `bytes`, before the first save, and for another when a save comes while one is
  // still written and `budget_bytes` has room for two. UsageError when there is no room for one.
  void prepare(int64_t bytes, int64_t budget_bytes);
  // What the disk refuses is told as a save that failed. Waits for an earlier one where memory is short. `start`: when
  // the parts were begun to be made.
  void save(int64_t step, std::vector<StatePart> parts,
            std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now());

  // Tells a save that failed before it was begun.
  void fail(int64_t step, const std::string& why, double blocked_ms = 0);

  // Where a step is.
  void begin_backward();
  // Before memory is updated: what is of one turn can be updated together, lower turns first; 0: it has left.
  size_t turn(const void* memory);
  void await(size_t turn);

  // Tells of saves that have ended; `wait`: of all, once they have.
  void look(bool wait);
  int64_t host_bytes() const;  // that it has taken
  int64_t most_host_bytes() const { return most_host_bytes_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Stall {
    device::EventPtr begin, end;
  };
  struct Flight {
    std::unique_ptr<Snapshot> snapshot;  // null: it is written, and older states go
    device::HostSlab* image = nullptr;
    std::vector<Stall> stalls;
    double blocked_ms = 0;                      // of the host
    std::shared_future<result::SavedStep> end;  // last: its thread uses the snapshot
  };

  result::SavedStep write(int64_t step, Clock::time_point start, const std::function<int64_t()>& write);
  result::SavedStep retain(result::SavedStep save);
  void save_waiting(int64_t step, const std::vector<StatePart>& parts, Clock::time_point start);
  Flight take_off(int64_t step, std::vector<StatePart> parts, Clock::time_point start);
  void prepare_buffer(int64_t bytes);
  void send(Flight& flight);
  void make_an_image_free();
  device::HostSlab& free_image(int64_t bytes);
  std::unique_ptr<device::HostSlab> allocate(int64_t bytes);
  void end_first();
  static double blocked_ms(const Flight& flight);

  device::Device& device_;
  StateFolder& folder_;
  SaveSettings settings_;
  std::function<void(const result::SavedStep&)> ended_;
  std::vector<std::unique_ptr<device::HostSlab>> slabs_;  // of images; of sync the one buffer
  int64_t budget_bytes_ = 0, most_host_bytes_ = 0;
  bool pinned_ = true;
  std::deque<Flight> flights_;  // the oldest first
};

}  // namespace memtune::state
