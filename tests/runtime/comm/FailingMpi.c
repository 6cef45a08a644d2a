// Stands before a real MPI: one without threads, or one that does not start. Its name for the
// start of MPI is all that it has.
#include <stdlib.h>

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  (void)argc, (void)argv, (void)required;
  *provided = 0; // MPI_THREAD_SINGLE
  return getenv("MPI_INIT_FAILS") ? 1 : 0;
}
