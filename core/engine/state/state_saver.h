// Saves the states of a run, one after another, in one of three modes:
//
//   sync        training waits until the state is on the disk
//   async       training waits for a copy in host memory, which a thread then writes
//   overlapped  training continues during the copy; an update waits for memory that is not copied yet
//
// Only the training thread may call it.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/base/device/device.h"
#include "core/engine/state/async_host_state_snapshot.h"
#include "core/engine/state/saved_states_folder.h"
#include "core/record/measurement/training.h"

namespace memtune::state {

struct StateSaveModeAndRetentionSettings {
  std::string how = "sync";        // one of kSaveModes
  int64_t keep_last = 0;           // states; 0: all
  bool activations_first = false;  // forwards offload activations: most copies wait for the backward
};

class StateSaver {
 public:
  // `ended` is called once per finished save. Device and folder must outlive this.
  StateSaver(device::Device& device, SavedStatesFolder& folder, StateSaveModeAndRetentionSettings settings,
             std::function<void(const result::SingleStateSaveRecord&)> ended);
  // Waits for saves in progress. A save whose copies were not all started fails.
  ~StateSaver();
  StateSaver(const StateSaver&) = delete;
  StateSaver& operator=(const StateSaver&) = delete;

  // Allocates host memory for a state of `bytes`, before the first save. Later it allocates a second image if a save
  // begins while another is still written and `budget_bytes` has room for two. Throws UsageError if there is no room
  // for one.
  void prepare(int64_t bytes, int64_t budget_bytes);
  // Begins a save. A disk error is reported as a failed save. Waits for an earlier save if host memory is short.
  // `start`: when the preparation of the parts began.
  void save(int64_t step, std::vector<TensorToSave> parts,
            std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now());

  // Reports a save that failed before it began.
  void fail(int64_t step, const std::string& why, double blocked_ms = 0);

  // To be called when a forward is over.
  void begin_backward();
  // To be called before `memory` is updated. Returns the turn to await; 0: it is copied. Memory of one turn can be
  // updated together, lower turns first.
  size_t turn(const void* memory);
  // Makes the compute stream wait for the copies of that turn.
  void await(size_t turn);

  // Reports the saves that have ended; with `wait`, all of them, once they have.
  void look(bool wait);
  int64_t host_bytes() const;  // allocated so far
  int64_t most_host_bytes() const { return most_host_bytes_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Stall {
    device::EventPtr begin, end;
  };
  struct Flight {
    std::unique_ptr<AsyncHostStateSnapshot> snapshot;  // null: written already, only older states are removed
    device::HostBuffer* image = nullptr;
    std::vector<Stall> stalls;
    double blocked_ms = 0;                                  // of the host
    std::shared_future<result::SingleStateSaveRecord> end;  // last member: its thread uses the snapshot
  };

  result::SingleStateSaveRecord write(int64_t step, Clock::time_point start, const std::function<int64_t()>& write);
  result::SingleStateSaveRecord retain(result::SingleStateSaveRecord save);
  void save_waiting(int64_t step, const std::vector<TensorToSave>& parts, Clock::time_point start);
  Flight start_snapshot(int64_t step, std::vector<TensorToSave> parts, Clock::time_point start);
  void prepare_buffer(int64_t bytes);
  void send(Flight& flight);
  void wait_for_free_image();
  device::HostBuffer& free_image(int64_t bytes);
  std::unique_ptr<device::HostBuffer> allocate(int64_t bytes);
  void end_first();
  static double blocked_ms(const Flight& flight);

  device::Device& device_;
  SavedStatesFolder& folder_;
  StateSaveModeAndRetentionSettings settings_;
  std::function<void(const result::SingleStateSaveRecord&)> ended_;
  std::vector<std::unique_ptr<device::HostBuffer>> slabs_;  // images of states; for sync the one buffer
  int64_t budget_bytes_ = 0, most_host_bytes_ = 0;
  bool pinned_ = true;
  std::deque<Flight> flights_;  // saves in progress, the oldest first
};

}  // namespace memtune::state
