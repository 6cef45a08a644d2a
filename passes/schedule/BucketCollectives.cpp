// nano-bucket-collectives: merges collectives of one kind into buckets.
//
//   step.launch @grad(%x, %a)              step.launch @grad(%x, %a)
//   step.all_reduce %a                     step.launch @grad(%x, %b)
//   step.launch @store(%a, %s)       →     step.all_reduce %a, %b
//   step.launch @grad(%x, %b)              step.launch @store(%a, %s)
//   step.all_reduce %b
//
// One large collective takes less time than many small ones, each of which pays the latency of its
// links. In program order, a collective joins the open bucket of its kind (op, combiner, ranks,
// parts, element type) while the bucket holds at most `max-bytes` with it, and while nothing that
// depends on the bucket must come before it. The bucket stands where its last member stood; what
// depends on an earlier member and stood in between follows it, all else keeps its order.
//
// It runs on final commands, before launches are batched, which keeps apart what belongs to
// different collectives, and before nano-schedule: a program that has events is left as it is.
#include "passes/Passes.h"
#include "passes/schedule/Costs.h"
#include "passes/schedule/Dependences.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <queue>
#include <tuple>

namespace nano {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "passes/Passes.h.inc"
} // namespace nano

using namespace mlir;
using namespace nano::step;
using namespace nano::schedule;

namespace {

/// What members of one bucket have in common.
using Kind = std::tuple<const void *, uint32_t, uint32_t, int64_t, const void *>;

Kind kindOf(Operation *op) {
  const void *name = op->getName().getAsOpaquePointer();
  const void *type =
      op->getNumOperands() == 0
          ? nullptr
          : cast<MemRefType>(op->getOperand(0).getType()).getElementType().getAsOpaquePointer();
  return llvm::TypeSwitch<Operation *, Kind>(op)
      .Case<AllReduceOp>([&](auto collective) {
        return Kind(name, uint32_t(collective.getCombiner()), uint32_t(collective.getRanks()), 0,
                    type);
      })
      .Case<ReduceScatterOp, AllGatherOp>([&](auto collective) {
        return Kind(name, 0, uint32_t(collective.getRanks()), int64_t(collective.getParts()), type);
      });
}

/// The members, in program order, as one command at the place of the last.
Operation *merge(ArrayRef<Operation *> members) {
  SmallVector<Location> locations;
  SmallVector<Value> first, second; // buffers; or sources and targets
  for (Operation *member : members) {
    locations.push_back(member->getLoc());
    llvm::TypeSwitch<Operation *>(member)
        .Case<AllReduceOp>([&](auto op) { llvm::append_range(first, op.getBuffers()); })
        .Case<ReduceScatterOp, AllGatherOp>([&](auto op) {
          llvm::append_range(first, op.getIns());
          llvm::append_range(second, op.getOuts());
        });
  }
  OpBuilder builder(members.back());
  Operation *merged = builder.clone(*members.back());
  merged->setLoc(FusedLoc::get(merged->getContext(), locations));
  llvm::TypeSwitch<Operation *>(merged)
      .Case<AllReduceOp>([&](auto op) { op.getBuffersMutable().assign(first); })
      .Case<ReduceScatterOp, AllGatherOp>([&](auto op) {
        op.getInsMutable().assign(first);
        op.getOutsMutable().assign(second);
      });
  return merged;
}

class Buckets {
public:
  Buckets(ProgramOp program, const KernelTable &kernels, int64_t maxBytes)
      : program(program), maxBytes(maxBytes), graph(dependencesOf(program, kernels)) {}

  void run() {
    if (fill())
      rewrite();
  }

private:
  struct Bucket {
    std::vector<uint32_t> members; ///< commands, in program order
    int64_t bytes = 0;
    llvm::BitVector needs; ///< buckets that a member depends on
  };

  bool fill();
  void rewrite();
  bool reaches(uint32_t from, const llvm::BitVector &needs) const;

  ProgramOp program;
  const int64_t maxBytes;
  Dependences graph;
  std::vector<Bucket> buckets;
  std::vector<int64_t> bucketOf; ///< by command; −1 for what is no collective
};

/// True when a command that needs these buckets needs bucket `from`, directly or through others.
bool Buckets::reaches(uint32_t from, const llvm::BitVector &needs) const {
  llvm::BitVector seen = needs;
  SmallVector<unsigned> open(seen.set_bits());
  while (!open.empty()) {
    const unsigned bucket = open.pop_back_val();
    if (bucket == from)
      return true;
    for (unsigned next : buckets[bucket].needs.set_bits())
      if (!seen.test(next)) {
        seen.set(next);
        open.push_back(next);
      }
  }
  return false;
}

/// Puts every collective into a bucket; false when each is alone.
bool Buckets::fill() {
  const size_t count = graph.commands.size();
  const size_t most =
      llvm::count_if(graph.commands, [](Operation *op) { return isCollective(op); });
  bucketOf.assign(count, -1);
  std::vector<llvm::BitVector> needs(count, llvm::BitVector(most)); // by command
  std::map<Kind, uint32_t> open;
  bool any = false;
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t earlier : graph.before[i]) {
      needs[i] |= needs[earlier];
      if (bucketOf[earlier] >= 0)
        needs[i].set(bucketOf[earlier]);
    }
    Operation *command = graph.commands[i];
    if (!isCollective(command))
      continue;
    const int64_t bytes = collectiveBytes(command);
    auto joins = [&](uint32_t bucket) {
      return buckets[bucket].bytes + bytes <= maxBytes && !reaches(bucket, needs[i]);
    };
    auto found = open.find(kindOf(command));
    if (found != open.end() && joins(found->second)) {
      bucketOf[i] = found->second;
      any = true;
    } else {
      bucketOf[i] = int64_t(buckets.size());
      buckets.push_back({{}, 0, llvm::BitVector(most)});
      if (bytes <= maxBytes)
        open[kindOf(command)] = uint32_t(bucketOf[i]);
    }
    Bucket &bucket = buckets[bucketOf[i]];
    bucket.members.push_back(i);
    bucket.bytes += bytes;
    bucket.needs |= needs[i];
  }
  return any;
}

/// Merges the buckets and moves what depends on a member behind it.
void Buckets::rewrite() {
  // A bucket is one node, at the place of its last member.
  const size_t count = graph.commands.size();
  std::vector<uint32_t> node(count);
  for (uint32_t i = 0; i < count; ++i)
    node[i] = bucketOf[i] < 0 ? i : buckets[bucketOf[i]].members.back();
  std::vector<uint32_t> pending(count, 0);
  std::vector<std::vector<uint32_t>> after(count);
  for (uint32_t i = 0; i < count; ++i)
    for (uint32_t earlier : graph.before[i]) {
      after[node[earlier]].push_back(node[i]);
      ++pending[node[i]];
    }
  // A bucket waits for its place, all else only for what it depends on.
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t i = 0; i < count; ++i)
    if (node[i] == i && pending[i] == 0)
      ready.push(i);
  std::vector<uint32_t> order;
  while (!ready.empty()) {
    const uint32_t next = ready.top();
    ready.pop();
    order.push_back(next);
    for (uint32_t later : after[next])
      if (--pending[later] == 0)
        ready.push(later);
  }
  Block &block = program.getBody().front();
  std::vector<Operation *> replaced;
  for (uint32_t i : order) {
    Operation *command = graph.commands[i];
    if (bucketOf[i] >= 0 && buckets[bucketOf[i]].members.size() > 1) {
      SmallVector<Operation *> members;
      for (uint32_t member : buckets[bucketOf[i]].members)
        members.push_back(graph.commands[member]);
      command = merge(members);
      replaced.insert(replaced.end(), members.begin(), members.end());
    }
    command->moveBefore(&block, block.end());
  }
  for (Operation *member : replaced)
    member->erase();
}

struct BucketCollectives : public nano::impl::BucketCollectivesBase<BucketCollectives> {
  using BucketCollectivesBase::BucketCollectivesBase;

  void runOnOperation() override {
    if (maxBytes < 0) {
      emitError(getOperation().getLoc(), "nano-bucket-collectives: max-bytes ")
          << maxBytes.getValue() << " is negative; 0 makes no buckets";
      return signalPassFailure();
    }
    KernelTable kernels(getOperation());
    for (auto program : getOperation().getOps<ProgramOp>())
      if (program.getBody().front().getOps<RecordOp>().empty())
        Buckets(program, kernels, maxBytes).run();
  }
};

} // namespace
