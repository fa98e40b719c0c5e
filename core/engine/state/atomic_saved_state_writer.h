// Writes one state to the disk. publish() makes it a state, complete and durable. Without publish() nothing of it
// stays, and earlier states are untouched.
//
//   folder, its name synced -> data in a temporary file, synced, renamed, folder synced -> the manifest likewise ->
//   latest
//
// The data file begins with its header. The data goes from the caller's memory to the disk in several transfers at a
// time, past the page cache if possible. A failed transfer or sync fails the save, because the system discards data
// that it could not write. Any thread, one at a time.
//
// With several ranks, each has a writer for a data file of its own. publish() on another rank reports to rank 0 that
// its data is durable; on rank 0 it waits for these reports and publishes all.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/engine/disk/atomic_output_file.h"
#include "core/engine/disk/request_queue.h"
#include "core/engine/state/checksum_thread.h"
#include "core/engine/state/saved_states_folder.h"
#include "core/engine/state/state_manifest.h"
#include "core/engine/state/streaming_tensor_and_file_checksums.h"
#include "core/model/safetensors/layout.h"

namespace memtune::state {

class AtomicSavedStateWriter {
 public:
  // Reserves disk space for all of it. `folder` must outlive this. `parts`: the tensors that are parts of larger ones.
  // Throws UsageError for duplicate names, IoError (also if the step has a state), DiskFullError with the sizes.
  AtomicSavedStateWriter(SavedStatesFolder& folder, int64_t step,
                         std::span<const safetensors::TensorNameDtypeAndShape> tensors, ShardExtents parts = {});
  // Without publish() it gives up the save. It waits for transfers in flight and for a running `before`. After that,
  // memory that write() got may be freed.
  ~AtomicSavedStateWriter();
  AtomicSavedStateWriter(const AtomicSavedStateWriter&) = delete;
  AtomicSavedStateWriter& operator=(const AtomicSavedStateWriter&) = delete;

  // In the order of safetensors::lay_out().
  const std::vector<safetensors::TensorEntry>& entries() const { return header_.entries; }

  // Writes the next bytes of the data. Returns at once. Portions are multiples of disk::kAlignment, except for the
  // last. `data` is aligned to disk::kAlignment and readable up to a multiple of it. The caller must not change it
  // until the request is done (if it fails, until this is destroyed). `before` runs once on a thread of the writer,
  // just before the bytes are used, but not after a failure. It may wait for a copy into them; what it throws fails the
  // save. Throws the failure of the save, and Error for an invalid portion.
  disk::RequestPtr write(const char* data, int64_t bytes, std::function<void()> before = nullptr);
  // Waits for all of it. Throws IoError, what a `before` threw, and Error if bytes are missing. If only `latest`
  // failed, the state is published nevertheless. Rank 0 of several also throws IoError if another rank failed or timed
  // out.
  void publish();

  int64_t bytes() const { return static_cast<int64_t>(head_.size()) + data_bytes(); }  // of the data file
  // How the disk is accessed: "io_uring, direct".
  std::string description() const { return file_.describe(queue_->io()); }

 private:
  // The state's folder, removed by the destructor unless keep() was called.
  class Place {
   public:
    Place(SavedStatesFolder& folder, int64_t step);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    std::filesystem::path path() const { return folder_.path(step_); }
    Place& synced();  // makes its name durable
    void keep() { kept_ = true; }

   private:
    SavedStatesFolder& folder_;
    int64_t step_;
    bool kept_ = false;
  };

  int64_t data_bytes() const { return safetensors::data_bytes_of(header_.entries); }
  void check(const char* data, int64_t bytes) const;
  StateManifest own_manifest() const;

  SavedStatesFolder& folder_;
  int64_t step_;
  ShardExtents parts_;
  safetensors::Header header_;
  std::string head_;  // header_ as it is in the file
  disk::AlignedBuffer aligned_head_;
  Place place_;
  disk::AtomicOutputFile file_;
  int64_t given_ = 0;                          // bytes of the data that write() got
  StreamingTensorAndFileChecksums checksums_;  // used by the thread until all is written
  std::unique_ptr<ChecksumThread> checksum_thread_;
  std::vector<disk::RequestPtr> requests_;
  disk::FirstIoFailureLatch failure_;
  std::unique_ptr<disk::RequestQueue> queue_;  // last member: its threads use all of the above
};

}  // namespace memtune::state
