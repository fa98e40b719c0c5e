// One state on its way to the disk. It is published by publish(), whole and for good; without it nothing of it stays,
// and the states that were there are untouched.
//
//   folder, its name synced -> data aside, synced, renamed, folder synced -> the same with the manifest -> latest
//
// A sync that failed is final, since the system forgets what it could not write: the save has failed. Thread: any one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/hash.h"
#include "core/safetensors/writer.h"
#include "core/state/manifest.h"
#include "core/state/state_folder.h"

namespace memtune::state {

class StateWriter {
 public:
  // UsageError for names that are there twice; IoError, also for a step that has a state. `folder` must outlive this.
  StateWriter(StateFolder& folder, int64_t step, std::span<const safetensors::Spec> tensors);
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  // In the order in which the bytes have to come.
  const std::vector<safetensors::Entry>& entries() const { return data_->entries(); }
  // The next bytes, in any portions.
  void write(const char* data, int64_t bytes);
  // Throws IoError, and Error when bytes are missing. When it was `latest` alone that failed, the state is published
  // nevertheless.
  void publish();

  int64_t bytes() const { return data_->bytes(); }  // of the data file, so far

 private:
  // The state's folder, gone with it unless it is kept.
  class Place {
   public:
    Place(StateFolder& folder, int64_t step);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    void keep() { kept_ = true; }

   private:
    StateFolder& folder_;
    int64_t step_;
    bool kept_ = false;
  };

  void add_to_hash(const char* data, int64_t bytes);
  void end_tensor();
  void flush();

  StateFolder& folder_;
  Manifest manifest_;  // with the tensors that have come to their end
  Place place_;
  std::unique_ptr<safetensors::Writer> data_;
  std::vector<char> piece_;     // gathered for large writes
  std::optional<Hasher> hash_;  // of the tensor that is coming
  int64_t hashed_ = 0;          // bytes of it
};

}  // namespace memtune::state
