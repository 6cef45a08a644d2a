// The control plane: what a rank's own thread calls.
#include "runtime/comm/ControlImpl.h"

namespace nano {

/// How long a transport that lost a rank waits for the reason.
static constexpr std::chrono::milliseconds verdictTime(2000);

Control::Control(std::unique_ptr<Impl> given) : impl(std::move(given)) {
  impl->own().since = Impl::Clock::now();
  impl->thread = std::thread([this] { impl->run(); });
}

Control::~Control() {
  {
    std::lock_guard lock(impl->mutex);
    impl->leaving = true;
    impl->leftAt = Impl::Clock::now();
  }
  impl->rouse();
  impl->thread.join();
}

const std::vector<Peer> &Control::peers() const { return impl->peers; }
const std::string &Control::key() const { return impl->key; }

Status Control::begin(const std::string &call) {
  std::lock_guard lock(impl->mutex);
  if (impl->isBroken)
    return failed(impl->why);
  Impl::Activity &own = impl->own();
  ++own.calls;
  own.request = call;
  own.waiting = true;
  impl->activityChanged();
  return ok();
}

void Control::finish() {
  std::lock_guard lock(impl->mutex);
  impl->own().waiting = false;
  impl->own().since = Impl::Clock::now();
}

void Control::doing(const std::string &what) {
  std::lock_guard lock(impl->mutex);
  Impl::Activity &own = impl->own();
  own.doing = what;
  own.waiting = false;
  impl->activityChanged();
}

void Control::waiting(const std::string &what) {
  std::lock_guard lock(impl->mutex);
  Impl::Activity &own = impl->own();
  own.doing = what;
  own.waiting = true;
  impl->activityChanged();
}

Result<std::vector<std::string>> Control::exchange(const std::string &mine) {
  std::unique_lock lock(impl->mutex);
  impl->exchanged.reset();
  const std::string text = pack({impl->own().request, mine});
  if (impl->isTooLong(impl->own().request, text))
    return failed(impl->why);
  if (impl->isHub())
    impl->addText(0, text);
  else
    impl->post(0, Impl::Text, text);
  impl->rouse();
  impl->changed.wait(lock, [&] { return impl->exchanged || impl->isBroken; });
  if (!impl->exchanged)
    return failed(impl->why);
  if (int(impl->exchanged->size()) != impl->options.world)
    return failed("rank 0 sent texts of " + std::to_string(impl->exchanged->size()) + " ranks");
  return *std::exchange(impl->exchanged, std::nullopt);
}

void Control::abort(const std::string &reason) {
  std::lock_guard lock(impl->mutex);
  const Impl::Activity &own = impl->own();
  impl->fail("rank " + std::to_string(impl->options.rank) + " failed after " + own.request +
                 (own.doing.empty() ? "" : ", " + own.doing) + ": " + reason,
             /*tell=*/true);
  impl->rouse();
}

std::optional<Error> Control::failure() const {
  if (!impl->isBroken)
    return std::nullopt;
  std::lock_guard lock(impl->mutex);
  return failed(impl->why);
}

bool Control::broken() const { return impl->isBroken; }

Error Control::settle(int rank, const std::string &reason) {
  {
    std::unique_lock lock(impl->mutex);
    impl->changed.wait_for(lock, verdictTime, [&] { return impl->isBroken.load(); });
  }
  if (!broken())
    abort(rank < 0 ? reason : "the connection to " + impl->nameOf(rank) + " " + reason);
  return *failure();
}

} // namespace nano
