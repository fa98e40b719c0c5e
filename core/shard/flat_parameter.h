// Parameters of one dtype as one row of numbers, of which each rank holds an equal part: its shard. The parameters stay
// the tensors that they are, as views of one storage whose bytes are there while they are gathered.
//
//   whole   | a a a a a . | b b b b b b | c c c . |  pad |      .: to the next multiple of 64 bytes
//   shards  |  rank 0           |  rank 1         ... |
//   pieces  | a a a a a | b b b |                             rank 0's: what of each parameter lies in its shard
//
// The pieces are what an optimizer is given; where a rank has none of a parameter, it has no piece of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/program/state.h"
#include "core/shard/host_rows.h"
#include "core/shard/shard_settings.h"

namespace memtune::shard {

// Whoever else holds the tensor has none of its bytes from here on.
void free_bytes(const at::Tensor& tensor);

class FlatParameter {
 public:
  // `parameters` are leaves of one dtype and device, dense, each with a storage of its own, and all require a gradient
  // or none does. From here on their bytes are the storage's, which has none until allocate(). UsageError for what
  // cannot be laid out so.
  // Shards that wait on the host are of `host`; null: they are where the parameters are.
  FlatParameter(std::string name, const program::NamedTensors& parameters, int rank, int ranks,
                const ShardSettings& settings = {}, HostRows* host = nullptr);

  const std::string& name() const { return name_; }
  bool trained() const { return trained_; }
  const program::NamedTensors& pieces() const { return pieces_; }                 // flat; by the parameters' names
  int64_t piece_begin(size_t i) const { return piece_begins_in_parameters_[i]; }  // in its parameter's memory
  size_t parameters() const { return members_.size(); }
  const at::Tensor& parameter(size_t i) const { return members_[i].tensor; }
  const at::Tensor& shard() const { return shard_; }  // of the settings' dtype
  const at::Tensor& whole() const { return whole_; }
  int64_t whole_bytes() const { return whole_bytes_; }
  const c10::StorageImpl* storage() const { return whole_.storage().unsafeGetStorageImpl(); }

  bool allocated() const { return whole_.storage().nbytes() > 0; }
  void allocate();  // what is in it is anybody's guess
  void free() { free_bytes(whole_); }

  // The parameters' gradients in one row of the dtype that they are reduced in, zeros where there is none; they are let
  // go. UsageError for a sparse one.
  at::Tensor take_gradients();
  // Of the shard's numbers and dtype: added to what the pieces have.
  void add_gradient(const at::Tensor& of_shard);
  bool has_gradient() const;

 private:
  struct Member {
    std::string name;
    at::Tensor tensor;
    int64_t begin = 0;
  };

  void lay_out(const program::NamedTensors& parameters, int ranks);
  void take_shard(int rank, const ShardSettings& settings, HostRows* host);
  at::Tensor within(const at::Tensor& row, const Member& member) const;

  std::string name_;
  bool trained_ = false;
  at::ScalarType reduce_dtype_;
  std::vector<Member> members_;
  program::NamedTensors pieces_;
  std::vector<int64_t> piece_begins_;  // in the shard
  std::vector<int64_t> piece_begins_in_parameters_;
  int64_t elements_ = 0, shard_elements_ = 0, whole_bytes_ = 0;
  at::Tensor whole_, shard_;
};

}  // namespace memtune::shard
