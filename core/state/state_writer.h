// One state on its way to the disk. It is published by publish(), whole and for good; without it nothing of it stays,
// and the states that were there are untouched.
//
//   folder, its name synced -> data aside, synced, renamed, folder synced -> the same with the manifest -> latest
//
// The data file begins with its header; its data goes from the caller's memory to the disk in transfers, several at a
// time, past the page cache where that is possible. A transfer or a sync that failed is final, since the system forgets
// what it could not write: the save has failed. Thread: any one.
//
// Of several ranks each has a writer, for a data file of its own: the others' publish() tells the first one that theirs
// is durable, the first one's waits for that and publishes all.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/disk/new_file.h"
#include "core/disk/request_queue.h"
#include "core/safetensors/layout.h"
#include "core/state/checksum_thread.h"
#include "core/state/checksums.h"
#include "core/state/manifest.h"
#include "core/state/state_folder.h"

namespace memtune::state {

class StateWriter {
 public:
  // Takes the room for all of it. UsageError for names that are there twice; IoError, also for a step that has a state;
  // DiskFull with the numbers. `folder` must outlive this.
  // `parts`: which of the tensors are parts of larger ones.
  StateWriter(StateFolder& folder, int64_t step, std::span<const safetensors::Spec> tensors, Extents parts = {});
  // Without publish() it ends the save: what waits is given up, transfers in flight and a `before` that runs are waited
  // for. Memory that was given to write() may go from then on.
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  // As safetensors::lay_out() has them.
  const std::vector<safetensors::Entry>& entries() const { return header_.entries; }

  // The next bytes of the data, in any portions that are multiples of disk::kAlignment, the last one excepted. Returns
  // at once. `data`: disk::kAlignment-aligned, readable up to a multiple of it, the caller's again when the request is
  // done (where it failed: when this is gone). `before` runs on a thread of the writer, once, just before the bytes are
  // used (not at all after a failure); it may wait for a copy into them and may throw: then the save has failed with
  // that. Throws what the save has failed with, and Error for what is no such portion.
  disk::RequestPtr write(const char* data, int64_t bytes, std::function<void()> before = nullptr);
  // Waits for all of it. Throws IoError, what a `before` threw, and Error when bytes are missing. When it was `latest`
  // alone that failed, the state is published nevertheless. Of several ranks' the first also throws IoError when
  // another rank has failed, or took longer than it has patience.
  void publish();

  int64_t bytes() const { return static_cast<int64_t>(head_.size()) + data_bytes(); }  // of the data file
  // "io_uring, direct": how the disk is used.
  std::string description() const { return file_.describe(queue_->io()); }

 private:
  // The state's folder, gone with it unless it is kept.
  class Place {
   public:
    Place(StateFolder& folder, int64_t step);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    std::filesystem::path path() const { return folder_.path(step_); }
    Place& synced();  // its name is durable
    void keep() { kept_ = true; }

   private:
    StateFolder& folder_;
    int64_t step_;
    bool kept_ = false;
  };

  int64_t data_bytes() const { return safetensors::data_bytes_of(header_.entries); }
  void check(const char* data, int64_t bytes) const;
  Manifest own_manifest() const;

  StateFolder& folder_;
  int64_t step_;
  Extents parts_;
  safetensors::Header header_;
  std::string head_;  // header_ as the file has it
  disk::AlignedBytes aligned_head_;
  Place place_;
  disk::NewFile file_;
  int64_t given_ = 0;    // bytes of the data that write() was given
  Checksums checksums_;  // the thread's until all is written
  std::unique_ptr<ChecksumThread> checksum_thread_;
  std::vector<disk::RequestPtr> requests_;
  disk::FirstFailure failure_;
  std::unique_ptr<disk::RequestQueue> queue_;  // last: its threads use all of the above
};

}  // namespace memtune::state
