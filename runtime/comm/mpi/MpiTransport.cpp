// Messages as non-blocking MPI calls, polled, so that a rank that is gone does not keep the others.
#include "runtime/comm/Transport.h"

#include <algorithm>
#include <chrono>
#include <mpi.h>
#include <thread>

namespace nano {
namespace {

/// The most bytes of one MPI message: its counts are ints.
constexpr uint64_t mostBytes = uint64_t(1) << 30;

std::string textOf(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  MPI_Error_string(code, text, &size);
  return {text, size_t(size)};
}

/// The messages of an exchange that are under way. What is left of them at the end is taken back:
/// their memory is the caller's, who may give it up.
class Messages {
public:
  Messages() = default;
  Messages(const Messages &) = delete;
  Messages &operator=(const Messages &) = delete;
  ~Messages() {
    for (MPI_Request &request : requests)
      if (request != MPI_REQUEST_NULL)
        MPI_Cancel(&request);
    // Most end at once. What neither ends nor can be taken back, as a message of which a part has
    // come from a rank that is gone, moves only in calls of MPI, and this transport makes no more.
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (MPI_Request &request : requests) {
      int done = 0;
      while (request != MPI_REQUEST_NULL &&
             MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done &&
             std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
      if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
    }
  }

  std::vector<MPI_Request> requests;
  std::vector<int> ranks; ///< the other end of each

private:
  static constexpr std::chrono::milliseconds patience{50};
};

class Mpi : public MpiTransport {
public:
  Mpi() {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }

  int rank() const override { return own; }
  int world() const override { return size; }

  Result<std::string> tell(const std::string &text) override {
    std::string told = text;
    auto bytes = uint64_t(told.size());
    int code = MPI_Bcast(&bytes, sizeof bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (code == MPI_SUCCESS) {
      told.resize(bytes);
      code = MPI_Bcast(told.data(), int(bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    if (code != MPI_SUCCESS)
      return failed("MPI_Bcast: " + textOf(code));
    return told;
  }

  std::optional<Loss> exchange(const std::vector<Send> &sends, const std::vector<Receive> &receives,
                               uint64_t call, const std::function<bool()> &stop) override {
    if (lost)
      return lost;
    lost = tryExchange(sends, receives, call, stop);
    return lost;
  }

  Status finish() override {
    if (lost) { // MPI is called no more
      const std::string reason = lost->reason.empty() ? "was given up" : lost->reason;
      return failed(lost->rank < 0
                        ? "an exchange " + reason
                        : "the connection to rank " + std::to_string(lost->rank) + " " + reason);
    }
    int code = MPI_Finalize();
    return code == MPI_SUCCESS ? ok() : Status(failed("MPI_Finalize: " + textOf(code)));
  }

  std::string describe() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string version(text, size_t(length));
    return version.substr(0, version.find_first_of(",\n"));
  }

private:
  static std::optional<Loss> tryExchange(const std::vector<Send> &sends,
                                         const std::vector<Receive> &receives, uint64_t call,
                                         const std::function<bool()> &stop) {
    // Every MPI allows tags up to 32767.
    const int tag = int((call ^ call >> 20 ^ call >> 40) % 32768);
    Messages messages;
    auto start = [&](int rank, uint64_t bytes, const auto &post) -> std::optional<Loss> {
      for (uint64_t at = 0; at < bytes; at += mostBytes) {
        MPI_Request request = MPI_REQUEST_NULL;
        int code = post(at, int(std::min(mostBytes, bytes - at)), &request);
        if (code != MPI_SUCCESS)
          return Loss{rank, "broke: " + textOf(code)};
        messages.requests.push_back(request);
        messages.ranks.push_back(rank);
      }
      return std::nullopt;
    };
    for (const Receive &receive : receives)
      if (auto loss =
              start(receive.rank, receive.bytes, [&](uint64_t at, int bytes, MPI_Request *request) {
                return MPI_Irecv(static_cast<char *>(receive.data) + at, bytes, MPI_BYTE,
                                 receive.rank, tag, MPI_COMM_WORLD, request);
              }))
        return loss;
    for (const Send &send : sends)
      if (auto loss =
              start(send.rank, send.bytes, [&](uint64_t at, int bytes, MPI_Request *request) {
                return MPI_Isend(static_cast<const char *>(send.data) + at, bytes, MPI_BYTE,
                                 send.rank, tag, MPI_COMM_WORLD, request);
              }))
        return loss;
    return wait(messages, stop);
  }

  /// Polls, for the first microseconds without a pause: MPI moves data only while it is asked.
  static std::optional<Loss> wait(Messages &messages, const std::function<bool()> &stop) {
    std::vector<MPI_Request> &requests = messages.requests;
    const std::vector<int> &ranks = messages.ranks;
    std::chrono::microseconds pause(10);
    std::vector<MPI_Status> statuses(requests.size());
    for (int polls = 0;; ++polls) {
      int done = 0;
      int code = MPI_Testall(int(requests.size()), requests.data(), &done, statuses.data());
      if (code != MPI_SUCCESS) {
        for (size_t i = 0; code == MPI_ERR_IN_STATUS && i < statuses.size(); ++i)
          if (statuses[i].MPI_ERROR != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_ERR_PENDING)
            return Loss{ranks[i], "broke: " + textOf(statuses[i].MPI_ERROR)};
        return Loss{ranks.empty() ? -1 : ranks[0], "broke: " + textOf(code)};
      }
      if (done)
        return std::nullopt;
      if (stop())
        return Loss{};
      if (polls < 200)
        continue;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(500));
    }
  }

  int own = 0, size = 1;
  std::optional<Loss> lost; ///< how an exchange ended: the last one
};

} // namespace
} // namespace nano

extern "C" __attribute__((visibility("default"))) nano::MpiTransport *
nanoCreateMpi(nano::Error *error) {
  int provided = 0;
  int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (code != MPI_SUCCESS || provided < MPI_THREAD_FUNNELED) {
    *error = nano::failed(code == MPI_SUCCESS
                              ? "MPI was built without threads (MPI_THREAD_FUNNELED); install one "
                                "with them, or give --coordinator HOST:PORT to do without MPI"
                              : "MPI_Init_thread failed; give --coordinator HOST:PORT to do "
                                "without MPI");
    return nullptr;
  }
  return new nano::Mpi();
}
