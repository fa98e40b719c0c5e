#include "core/base/device/device.h"

#include <algorithm>

namespace memtune::device {

void Device::limit_process(int64_t bytes) { set_cap(bytes == 0 ? 0 : std::max<int64_t>(1, bytes - unmanaged_bytes())); }

void Device::wait_quietly(StreamKind stream, const EventPtr& event) noexcept try { wait(stream, event); } catch (...) {
  synchronize_quietly();
}

void Device::synchronize_quietly() noexcept try { synchronize(); } catch (...) {  // the device is lost
}

}  // namespace memtune::device
