#include "core/engine/state/write.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "core/base/error.h"
#include "core/engine/state/atomic_saved_state_writer.h"

namespace memtune::state {
namespace {

using device::StreamKind;
using safetensors::TensorEntry;

// The parts in the order of the file, and the position of the copy.
class Source {
 public:
  Source(device::Device& device, const std::vector<TensorToSave>& parts, const std::vector<TensorEntry>& entries)
      : device_(device) {
    std::map<std::string_view, const TensorToSave*> by_name;
    for (const TensorToSave& part : parts) by_name[part.spec.name] = &part;
    for (const TensorEntry& entry : entries) rest_.push_back({by_name.at(entry.name), entry.bytes()});
    std::ranges::reverse(rest_);
  }

  // Copies the next bytes.
  void copy_to(char* to, int64_t bytes) {
    while (bytes > 0) {
      auto& [part, left] = rest_.back();
      const int64_t count = std::min(bytes, left);
      const char* from =
          part->data + (safetensors::bytes_of(part->spec.name, part->spec.dtype, part->spec.shape) - left);
      if (part->on_device) {
        device_.copy(to, from, count, device::CopyDirection::to_host, StreamKind::out);
      } else {
        std::memcpy(to, from, static_cast<size_t>(count));
      }
      to += count, bytes -= count, left -= count;
      if (left == 0) rest_.pop_back();
    }
  }

 private:
  struct Rest {
    const TensorToSave* part;
    int64_t bytes;
  };
  device::Device& device_;
  std::vector<Rest> rest_;  // the next one is last
};

// Running copies read from parts and write into the buffer. The destructor waits for them.
class CopiesEnd {
 public:
  explicit CopiesEnd(device::Device& device) : device_(device) {}
  ~CopiesEnd() {
    try {
      device_.record(StreamKind::out)->synchronize();
    } catch (const Error&) {
      device_.synchronize_quietly();
    }
  }
  CopiesEnd(const CopiesEnd&) = delete;
  CopiesEnd& operator=(const CopiesEnd&) = delete;

 private:
  device::Device& device_;
};

}  // namespace

int64_t write(const AsyncHostStateSnapshot& snapshot, SavedStatesFolder& folder) {
  AtomicSavedStateWriter writer(folder, snapshot.step(), snapshot.specs(), snapshot.extents());
  for (int64_t begin = 0; begin < snapshot.bytes(); begin += kPieceBytes) {
    const int64_t end = std::min(begin + kPieceBytes, snapshot.bytes());
    writer.write(snapshot.data() + begin, end - begin, [&snapshot, end] { snapshot.await_bytes(end); });
  }
  snapshot.await_confirmed();
  writer.publish();
  return writer.bytes();
}

int64_t write(device::Device& device, int64_t step, const std::vector<TensorToSave>& parts, device::HostBuffer& buffer,
              SavedStatesFolder& folder) {
  std::vector<safetensors::TensorNameDtypeAndShape> specs;
  for (const TensorToSave& part : parts) specs.push_back(part.spec);
  std::vector<disk::RequestPtr> in_use(static_cast<size_t>(buffer.bytes() / kPieceBytes));
  const CopiesEnd copies_end(device);
  AtomicSavedStateWriter writer(folder, step, specs, extents_of(parts));
  Source source(device, parts, writer.entries());
  device.wait(StreamKind::out, device.record(StreamKind::compute));
  const int64_t bytes = safetensors::data_bytes_of(writer.entries());
  for (int64_t begin = 0, number = 0; begin < bytes; begin += kPieceBytes, ++number) {
    const auto place = static_cast<size_t>(number) % in_use.size();
    if (in_use[place]) in_use[place]->wait();
    char* const piece = buffer.data() + static_cast<int64_t>(place) * kPieceBytes;
    const int64_t size = std::min(kPieceBytes, bytes - begin);
    source.copy_to(piece, size);
    const device::EventPtr there = device.record(StreamKind::out);
    in_use[place] = writer.write(piece, size, [there] { there->synchronize(); });
  }
  writer.publish();
  return writer.bytes();
}

}  // namespace memtune::state
