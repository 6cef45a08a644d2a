// Launches as environments describe them, and one clear line for each that contradicts itself.
#include "runtime/comm/Launch.h"

#include <gtest/gtest.h>
#include <map>

namespace nano {
namespace {

using Values = std::map<std::string, std::string>;

Result<Launch> launch(const Values &values, const LaunchOptions &options = {}) {
  return launchFrom(options, [&](const char *name) -> std::optional<std::string> {
    auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  });
}

void expectBad(const Values &values, const LaunchOptions &options, const std::string &message) {
  auto made = launch(values, options);
  ASSERT_FALSE(made) << message;
  EXPECT_EQ(made.error().exitStatus(), 2);
  EXPECT_EQ(made.error().message, message);
}

const Values torchrun = {
    {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node-a"}, {"MASTER_PORT", "29500"}};
const Values slurm = {{"SLURM_PROCID", "5"},
                      {"SLURM_NTASKS", "16"},
                      {"SLURM_JOB_ID", "4711"},
                      {"SLURM_STEP_ID", "2"},
                      {"SLURM_JOB_NODELIST", "gpu[03-06,9],login"}};
const Values openMpi = {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}};

Values with(Values values, const std::string &name, const std::string &value) {
  values[name] = value;
  return values;
}
Values without(Values values, const std::string &name) {
  values.erase(name);
  return values;
}

TEST(Launch, GpusAloneAreThreads) {
  auto made = launch({}, {8, ""});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->carrier, Launch::Carrier::Threads);
  EXPECT_EQ(made->world, 8);
  EXPECT_EQ(launch({})->world, 1);
}

TEST(Launch, Torchrun) {
  auto made = launch(torchrun, {4, ""});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->carrier, Launch::Carrier::Sockets);
  EXPECT_EQ(made->rank, 3);
  EXPECT_EQ(made->world, 4);
  EXPECT_EQ(made->host, "node-a");
  EXPECT_EQ(made->port, 29500);
  // torchrun's own store has that port.
  EXPECT_EQ(launch(with(torchrun, "TORCHELASTIC_USE_AGENT_STORE", "True"))->port, 29501);
}

TEST(Launch, Slurm) {
  auto made = launch(slurm);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->carrier, Launch::Carrier::Sockets);
  EXPECT_EQ(made->rank, 5);
  EXPECT_EQ(made->world, 16);
  EXPECT_EQ(made->host, "gpu03");
  EXPECT_EQ(made->port, 20000 + (4711 * 13 + 2) % 12000);
  EXPECT_EQ(made->job, "4711.2");
  EXPECT_EQ(launch(with(slurm, "MASTER_ADDR", "other"))->host, "other");
  EXPECT_EQ(launch(with(slurm, "MASTER_PORT", "1234"))->port, 1234);
  EXPECT_EQ(launch(with(slurm, "SLURM_STEP_NODELIST", "b7,gpu3"))->host, "b7");
  EXPECT_EQ(launch(with(slurm, "SLURM_STEP_NUM_TASKS", "8"))->world, 8);
  // One task, as a batch script is, may have its ranks as threads.
  auto single = launch(with(with(slurm, "SLURM_NTASKS", "1"), "SLURM_PROCID", "0"), {8, ""});
  ASSERT_TRUE(single);
  EXPECT_EQ(single->carrier, Launch::Carrier::Threads);
  EXPECT_EQ(single->world, 8);
  // sbatch without --ntasks sets no number.
  single = launch(without(with(slurm, "SLURM_PROCID", "0"), "SLURM_NTASKS"), {8, ""});
  ASSERT_TRUE(single) << single.error().message;
  EXPECT_EQ(single->carrier, Launch::Carrier::Threads);
  EXPECT_EQ(single->world, 8);
}

TEST(Launch, Mpirun) {
  auto made = launch(openMpi);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->carrier, Launch::Carrier::Mpi);
  EXPECT_EQ(made->rank, 2);
  EXPECT_EQ(made->world, 4);
  made = launch({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->carrier, Launch::Carrier::Mpi);
  EXPECT_EQ(made->rank, 1);
  // The innermost launcher counts: mpirun within a Slurm job.
  Values both = slurm;
  both.insert(openMpi.begin(), openMpi.end());
  EXPECT_EQ(launch(both)->carrier, Launch::Carrier::Mpi);
  // A coordinator does without MPI.
  made = launch(openMpi, {{}, "node-b:7000"});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->carrier, Launch::Carrier::Sockets);
  EXPECT_EQ(made->host, "node-b");
  EXPECT_EQ(made->port, 7000);
  EXPECT_EQ(launch(openMpi, {{}, "[fe00::1]:7000"})->host, "fe00::1");
}

TEST(Launch, RanksOfOneMachine) {
  auto made = launch(with(torchrun, "LOCAL_WORLD_SIZE", "4"));
  EXPECT_TRUE(made->oneMachine);
  EXPECT_EQ(made->host, "127.0.0.1") << "whatever the machine's name means elsewhere";
  EXPECT_FALSE(launch(with(torchrun, "LOCAL_WORLD_SIZE", "2"))->oneMachine);
  EXPECT_EQ(launch(with(torchrun, "LOCAL_WORLD_SIZE", "2"))->host, "node-a");
  EXPECT_TRUE(launch(with(torchrun, "MASTER_ADDR", "localhost"))->oneMachine);
  EXPECT_TRUE(launch(with(slurm, "SLURM_NNODES", "1"))->oneMachine);
  EXPECT_FALSE(
      launch(with(with(slurm, "SLURM_NNODES", "1"), "SLURM_STEP_NUM_NODES", "2"))->oneMachine);
  EXPECT_TRUE(launch(with(openMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "4"))->oneMachine);
  EXPECT_FALSE(launch(openMpi)->oneMachine);
  // Where the user says where rank 0 is, it is there.
  made = launch(with(torchrun, "LOCAL_WORLD_SIZE", "4"), {{}, "node-b:7000"});
  EXPECT_FALSE(made->oneMachine);
  EXPECT_EQ(made->host, "node-b");
}

TEST(Launch, SecretOfTheJob) {
  EXPECT_EQ(launch(torchrun)->secret, "");
  const Values known = with(torchrun, "NANO_JOB_SECRET", "0123456789abcdef");
  EXPECT_EQ(launch(known)->secret, "0123456789abcdef");
  expectBad(with(torchrun, "NANO_JOB_SECRET", "0123"), {},
            "NANO_JOB_SECRET: has 4 characters, a secret has at least 16; make one with openssl "
            "rand -hex 32");
  LaunchOptions file;
  file.secretFile = "/no/such/file";
  expectBad(known, file, "--job-secret /no/such/file: cannot be opened: No such file or directory");
  expectBad({}, file,
            "--job-secret: needs ranks that mpirun, Slurm or torchrun start; those of one process "
            "have no strangers among them");
}

TEST(Launch, Contradictions) {
  expectBad(
      torchrun, {8, ""},
      "--gpus 8: torchrun started 4 ranks, each a process; leave --gpus out or start as many");
  expectBad(with(openMpi, "OMPI_COMM_WORLD_SIZE", "1"), {{}, ""},
            "the environment of mpirun: rank 2 is not one of 1 ranks");
  expectBad(with(torchrun, "RANK", "4"), {},
            "the environment of torchrun: rank 4 is not one of 4 "
            "ranks");
  expectBad({}, {2, "host:1"},
            "--coordinator: needs ranks that mpirun, Slurm or torchrun start; --gpus N alone runs "
            "them in one process");
}

TEST(Launch, MissingPieces) {
  for (const char *name : {"RANK", "WORLD_SIZE", "MASTER_PORT"})
    expectBad(without(torchrun, name), {},
              "the environment of torchrun: " + std::string(name) +
                  " is not set; start all ranks with torchrun");
  expectBad(without(torchrun, "MASTER_ADDR"), {},
            "the environment of torchrun: MASTER_ADDR is not set; start all ranks with torchrun, "
            "or say where rank 0 is with --coordinator HOST:PORT");
  EXPECT_TRUE(launch(without(torchrun, "MASTER_ADDR"), {{}, "node-a:5"}));
  expectBad(without(openMpi, "OMPI_COMM_WORLD_RANK"), {},
            "the environment of mpirun: OMPI_COMM_WORLD_RANK is not set; start all ranks with "
            "mpirun");
  expectBad(without(slurm, "SLURM_NTASKS"), {},
            "the environment of Slurm: SLURM_NTASKS is not set; start all ranks with Slurm");
  expectBad(with(with(slurm, "SLURM_NTASKS", "2,2"), "SLURM_PROCID", "0"), {},
            "the environment of Slurm: SLURM_NTASKS=2,2 is not a whole number from 1 to 65536");
  expectBad(without(slurm, "SLURM_JOB_NODELIST"), {},
            "the environment of Slurm: SLURM_JOB_NODELIST is not set; start all ranks with Slurm, "
            "or say where rank 0 is with --coordinator HOST:PORT");
  expectBad(with(torchrun, "MASTER_PORT", "99999"), {},
            "the environment of torchrun: MASTER_PORT=99999 is not a whole number from 1 to 65535");
  expectBad(with(torchrun, "WORLD_SIZE", "four"), {},
            "the environment of torchrun: WORLD_SIZE=four is not a whole number from 1 to 65536");
  for (const char *coordinator : {"node", "node:", "node:0", ":7", "node:70000", "node:7x"})
    expectBad(torchrun, {{}, coordinator},
              "--coordinator " + std::string(coordinator) +
                  ": is not HOST:PORT with a port from 1 to 65535");
}

TEST(Launch, FirstHostOfAList) {
  EXPECT_EQ(firstHost("a"), "a");
  EXPECT_EQ(firstHost("a,b"), "a");
  EXPECT_EQ(firstHost("n[3,5]"), "n3");
  EXPECT_EQ(firstHost("n[003-007],m"), "n003");
  EXPECT_EQ(firstHost("n[1-2]-ib[0,4].cluster,x"), "n1-ib0.cluster");
  EXPECT_EQ(firstHost(""), "");
}

} // namespace
} // namespace nano
