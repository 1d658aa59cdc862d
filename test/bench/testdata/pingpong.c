// pingpong measures the paths between MPI ranks: half the time of a round trip
// of 8 bytes (latency) and of 1 MiB (bandwidth) between rank 0 and the next rank
// of its node and the first one elsewhere, and allreduce over all ranks. A figure is
// the best of many short batches: what else runs on the machine only ever makes
// one slower. Each line of output is "name value".
//
// Usage: pingpong RANKS_PER_NODE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL = 8, LARGE = 1 << 20 };

static int rank, size;
static char *out, *in;

static double least(double a, double b) { return a < b ? a : b; }

// rest waits for rank 0 without taking a core from those that are measured.
static void rest(void) {
  MPI_Request request;
  char word;
  int done = 0;
  if (rank == 0) {
    for (int other = 1; other < size; other++) MPI_Send(&word, 1, MPI_CHAR, other, 1, MPI_COMM_WORLD);
    return;
  }
  MPI_Irecv(&word, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request);
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done) usleep(2000);
}

// pingpong returns the best time of one way between rank 0 and a peer, in
// seconds; on all but rank 0 the result has no meaning.
static double pingpong(int peer, int bytes, int trips, int batches) {
  double best = 1e9;
  if (rank == 0 || rank == peer) {
    for (int batch = -1; batch < batches; batch++) { // the first warms up
      double began = MPI_Wtime();
      for (int i = 0; i < trips; i++) {
        if (rank == 0) {
          MPI_Send(out, bytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
          MPI_Recv(in, bytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
          MPI_Recv(in, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
          MPI_Send(out, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        }
      }
      if (batch >= 0) best = least(best, (MPI_Wtime() - began) / trips / 2);
    }
  }
  rest();
  return best;
}

// allreduce returns the best time of one, which is that of its slowest rank.
static double allreduce(int bytes, int times, int batches) {
  double best = 1e9;
  for (int batch = -1; batch < batches; batch++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (int i = 0; i < times; i++)
      MPI_Allreduce(out, in, bytes / sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double took = (MPI_Wtime() - began) / times;
    MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (batch >= 0) best = least(best, took);
  }
  return best;
}

static void report(const char *name, double value) {
  if (rank == 0) printf("%s %.3f\n", name, value);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int per_node = argc > 1 ? atoi(argv[1]) : 1;
  if (per_node < 2 || per_node >= size) {
    if (rank == 0) fprintf(stderr, "pingpong: %d ranks, %d a node: it needs two nodes and two ranks on each\n", size, per_node);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  out = malloc(LARGE);
  in = malloc(LARGE);
  if (!out || !in) MPI_Abort(MPI_COMM_WORLD, 3);
  memset(out, 1, LARGE); // pages that nobody wrote are all one page of zeros
  memset(in, 1, LARGE);
  report("latency-within", 1e6 * pingpong(1, SMALL, 100, 200));
  report("bandwidth-within", 1e-6 * LARGE / pingpong(1, LARGE, 1, 500));
  report("latency-between", 1e6 * pingpong(per_node, SMALL, 20, 200));
  report("bandwidth-between", 1e-6 * LARGE / pingpong(per_node, LARGE, 1, 1000));
  report("allreduce-small", 1e6 * allreduce(SMALL, 5, 100));
  report("allreduce-large", 1e3 * allreduce(LARGE, 1, 100));
  MPI_Finalize();
  return 0;
}
