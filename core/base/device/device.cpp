#include "core/base/device/device.h"

namespace memtune::device {

void Device::wait_quietly(Stream stream, const EventPtr& event) noexcept try { wait(stream, event); } catch (...) {
  synchronize_quietly();
}

void Device::synchronize_quietly() noexcept try { synchronize(); } catch (...) {  // the device is lost
}

}  // namespace memtune::device
