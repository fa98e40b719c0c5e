// Parameters of one dtype as one flat tensor, of which each rank holds an equal part: its shard. The parameters stay
// the same tensors, as views of one storage. Its bytes exist only while they are gathered.
//
//   whole   | a a a a a . | b b b b b b | c c c . |  pad |      .: padding to a multiple of 64 bytes
//   shards  |  rank 0           |  rank 1         ... |
//   pieces  | a a a a a | b b b |                             rank 0's: the part of each parameter in its shard
//
// The optimizer updates the pieces. A rank without any part of a parameter has no piece of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/base/device/torch/storage_bytes.h"
#include "core/engine/shard/pinned_tensor_allocator_and_copier.h"
#include "core/engine/shard/reshard_dtype_and_offload_options.h"
#include "core/model/program/host_weights_while_model_loads.h"
#include "core/model/program/state.h"

namespace memtune::shard {

class FlatParameter {
 public:
  // `parameters`: dense leaves of one dtype and device, each with its own storage; all or none require a gradient. From
  // here on they share one storage, without bytes until allocate(). `host`: allocates the shard in host memory; null:
  // the shard is on the parameters' device. Throws UsageError for parameters without such a layout.
  FlatParameter(std::string name, const program::NamedTensors& parameters, int rank, int ranks,
                const ReshardDtypeAndOffloadOptions& settings = {}, PinnedTensorAllocatorAndCopier* host = nullptr);
  // Of one process: the shard is the whole, with its bytes, and the pieces are the parameters. `weights`: may have the
  // parameters' bytes, and no longer has them then; null: they are on the device.
  FlatParameter(std::string name, const program::NamedTensors& parameters,
                program::HostWeightsWhileModelLoads* weights);

  const std::string& name() const { return name_; }
  bool trained() const { return trained_; }
  // flat; named like their parameters
  const program::NamedTensors& pieces() const { return pieces_; }
  // first element in the parameter's memory
  int64_t piece_begin(size_t i) const { return piece_begins_in_parameters_[i]; }
  size_t parameters() const { return members_.size(); }
  const at::Tensor& parameter(size_t i) const { return members_[i].tensor; }
  const std::string& parameter_name(size_t i) const { return members_[i].name; }
  std::vector<at::Tensor> views_in(const at::Tensor& row) const;  // of a row like whole(), one for each parameter
  const at::Tensor& shard() const { return shard_; }              // dtype of the settings
  const at::Tensor& whole() const { return whole_; }
  int64_t whole_bytes() const { return whole_bytes_; }
  const c10::StorageImpl* storage() const { return whole_.storage().unsafeGetStorageImpl(); }

  bool allocated() const { return whole_.storage().nbytes() > 0; }
  void allocate() { device::allocate_bytes(whole_, whole_bytes_); }
  void free() { device::free_bytes(whole_); }

  // Moves the parameters' gradients into one flat tensor of the reduce dtype; undefined ones become zeros. Throws
  // UsageError for a sparse gradient.
  at::Tensor take_gradients();
  // `of_shard`: elements and dtype of the shard. Adds it to the gradients of the pieces.
  void add_gradient(const at::Tensor& of_shard);
  bool has_gradient() const;

 private:
  struct Member {
    std::string name;
    at::Tensor tensor;
    int64_t begin = 0;
  };

  void lay_out(const program::NamedTensors& parameters, int ranks,
               program::HostWeightsWhileModelLoads* weights = nullptr);
  void move_members();
  void take_shard(int rank, const ReshardDtypeAndOffloadOptions& settings, PinnedTensorAllocatorAndCopier* host);
  at::Tensor within(const at::Tensor& row, const Member& member) const;

  std::string name_;
  bool trained_ = false;
  at::ScalarType reduce_dtype_;
  std::vector<Member> members_;
  program::NamedTensors pieces_;
  std::vector<int64_t> piece_begins_;  // first elements in the shard
  std::vector<int64_t> piece_begins_in_parameters_;
  int64_t elements_ = 0, shard_elements_ = 0, whole_bytes_ = 0;
  at::Tensor whole_, shard_;
};

}  // namespace memtune::shard
