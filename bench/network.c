/* Emulates a network between N nodes on one machine. Each node is a network namespace with its own host name, as if it
 * were a machine. Linux only; needs root, /dev/net/tun and tc.
 *
 *     network --nodes 2 --rate 10 --delay 50       prints one line, then forwards packets
 *
 * Node i has the address 10.77.0.(i + 1), the host name node<i> and one device, net0. A queue of tc (token bucket)
 * limits what a node sends to the rate. This program receives each packet, holds it for the delay, limits what each
 * node receives to the rate, and delivers it. It has a real-time priority, because computing processes would otherwise
 * delay it. A program joins node i with nsenter, through the files /proc/PID/fd/(100 + i), the network, and
 * /proc/PID/fd/(200 + i), the host name. PID is in the printed line.
 *
 * The program ends with SIGTERM. If its input ends, it ends a few seconds later: the process that started it was killed,
 * and programs on the nodes may still tell each other to end. The nodes exist while this process runs, however it ends,
 * and while a program runs in them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "measure.h"
#include "options.h"

static const char program[] = "network";
enum {
    MAX_NODES = 8,
    NETWORK_FILE = 100, /* the files of node i are NETWORK_FILE + i and NAME_FILE + i */
    NAME_FILE = 200,
    ADDRESS = 10 << 24 | 77 << 16, /* 10.77.0.0 */
    MAX_PACKET = 1 << 17,          /* with its virtio header */
    VIRTIO_HEADER = 10,
    IP_HEADER = 20,
    DESTINATION = 16, /* the offset of the destination's address in an IP header */
    PACKETS = 4096,   /* that can wait at the same time */
    BATCH = 16,       /* packets that are received from a node before the others have their turn */
    AFTERWARDS = 3    /* seconds */
};

static int64_t nodes = 2;
static double rate = 10, delay = 50;

static const program_option options[] = {
    {"nodes", "machines of the network", .integer = &nodes, .low = 2, .high = MAX_NODES},
    {"rate", "Gbit/s of each node, to send and to receive", .real = &rate, .low = 0.01, .high = 100},
    {"delay", "microseconds that a packet is held", .real = &delay, .low = 0, .high = 1e6},
    {0},
};

/* Ends the program, with the reason of the system, if a system call failed. */
static void check(bool good, const char *what)
{
    if (good)
        return;
    char problem[256];
    snprintf(problem, sizeof problem, "%s: %s", what, strerror(errno));
    give_up(program, problem);
}

/* -- nodes -- */

static struct sockaddr ip_address(uint32_t host_order)
{
    struct sockaddr a;
    memset(&a, 0, sizeof a);
    const struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host_order)};
    memcpy(&a, &in, sizeof in);
    return a;
}

static void start_device(int socket, const char *name)
{
    struct ifreq request = {0};
    snprintf(request.ifr_name, IFNAMSIZ, "%s", name);
    check(ioctl(socket, SIOCGIFFLAGS, &request) == 0, "SIOCGIFFLAGS");
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
    check(ioctl(socket, SIOCSIFFLAGS, &request) == 0, "SIOCSIFFLAGS");
}

/* Chooses Reno, so that results do not depend on the setting of this machine. A namespace may always choose it. No packet
 * is lost here, so Cubic would do the same. */
static void choose_congestion_control(void)
{
    static const char path[] = "/proc/sys/net/ipv4/tcp_congestion_control", reno[] = "reno";
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    check(file >= 0 && write(file, reno, strlen(reno)) > 0, path);
    close(file);
}

/* Makes the device net0 in the namespace of this process, and returns the file through which its packets come. The
 * device leaves checksums and the division of long TCP packets to the receiver, as network cards do. */
static int device_new(int64_t node)
{
    struct ifreq request = {.ifr_name = "net0"};
    const int file = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    check(file >= 0, "/dev/net/tun");
    request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    check(ioctl(file, TUNSETIFF, &request) == 0, "TUNSETIFF");
    check(ioctl(file, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) == 0, "TUNSETOFFLOAD");
    const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    check(control >= 0, "socket");
    request.ifr_addr = ip_address(ADDRESS + (uint32_t)node + 1);
    check(ioctl(control, SIOCSIFADDR, &request) == 0, "SIOCSIFADDR");
    request.ifr_netmask = ip_address(0xffffff00);
    check(ioctl(control, SIOCSIFNETMASK, &request) == 0, "SIOCSIFNETMASK");
    request.ifr_qlen = 10000;
    check(ioctl(control, SIOCSIFTXQLEN, &request) == 0, "SIOCSIFTXQLEN");
    start_device(control, "net0");
    start_device(control, "lo");
    close(control);
    char limit[160];
    snprintf(limit, sizeof limit, "tc qdisc add dev net0 root tbf rate %.0fkbit burst 256kb limit 64mb", rate * 1e6);
    if (system(limit) != 0)
        give_up(program, limit);
    return file;
}

/* Moves this process into new namespaces, keeps them open under fixed numbers, and returns the file of their device. */
static int node_new(int64_t node)
{
    char name[32];
    check(unshare(CLONE_NEWNET | CLONE_NEWUTS) == 0, "unshare");
    snprintf(name, sizeof name, "node%d", (int)node);
    check(sethostname(name, strlen(name)) == 0, "sethostname");
    const int network = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    const int host = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
    check(network >= 0 && host >= 0, "/proc/self/ns");
    check(dup3(network, NETWORK_FILE + (int)node, O_CLOEXEC) >= 0, "dup3");
    check(dup3(host, NAME_FILE + (int)node, O_CLOEXEC) >= 0, "dup3");
    close(network);
    close(host);
    choose_congestion_control();
    return device_new(node);
}

/* -- packets that wait -- */

typedef struct packet {
    struct packet *next;
    double due;  /* clock time of the delivery */
    size_t size; /* bytes in data */
    unsigned char data[MAX_PACKET];
} packet;

/* The packets that wait for one node. */
typedef struct {
    packet *first, *last;
    double free; /* clock time when the link to the node has sent all of them */
} queue;

static packet *unused; /* a list */

static void packets_new(void)
{
    packet *all = malloc(PACKETS * sizeof *all);
    if (all == NULL)
        give_up(program, "out of memory");
    for (int i = 0; i < PACKETS; i++) {
        all[i].next = unused;
        unused = &all[i];
    }
}

/* Moves the first unused packet to the end of a queue, and sets the time of its delivery. */
static void queue_add(queue *q, size_t size)
{
    packet *p = unused;
    const double arrival = now() + delay * 1e-6;
    q->free = (arrival > q->free ? arrival : q->free) + (double)(size - VIRTIO_HEADER) * 8e-9 / rate;
    unused = p->next;
    p->next = NULL;
    p->due = q->free;
    p->size = size;
    if (q->first)
        q->last->next = p;
    else
        q->first = p;
    q->last = p;
}

static void queue_remove(queue *q)
{
    packet *p = q->first;
    q->first = p->next;
    p->next = unused;
    unused = p;
}

/* -- forwarding -- */

/* Returns the node that receives an IPv4 packet, or -1. */
static int64_t destination(const unsigned char *data)
{
    const unsigned char *a = data + VIRTIO_HEADER + DESTINATION;
    const uint32_t address = (uint32_t)a[0] << 24 | (uint32_t)a[1] << 16 | (uint32_t)a[2] << 8 | a[3];
    const int64_t node = (int64_t)address - ADDRESS - 1;
    return data[VIRTIO_HEADER] >> 4 == 4 && node >= 0 && node < nodes ? node : -1;
}

static void receive(int file, queue *queues)
{
    for (int i = 0; i < BATCH && unused; i++) {
        const ssize_t size = read(file, unused->data, sizeof unused->data);
        if (size < VIRTIO_HEADER + IP_HEADER)
            return;
        const int64_t node = destination(unused->data);
        if (node >= 0)
            queue_add(&queues[node], (size_t)size);
    }
}

/* Delivers the packets that are due. Returns the time of the next delivery, or `never`. */
static double deliver(int file, queue *q, double never)
{
    for (; q->first; queue_remove(q))
        if (q->first->due > now() || (write(file, q->first->data, q->first->size) < 0 && errno == EAGAIN))
            return q->first->due;
    return never;
}

/* Forwards packets until AFTERWARDS seconds after the end of standard input. */
static void forward(const int *files)
{
    static queue queues[MAX_NODES];
    struct pollfd polled[MAX_NODES + 1];
    for (int64_t i = 0; i < nodes; i++)
        polled[i] = (struct pollfd){files[i], POLLIN, 0};
    polled[nodes] = (struct pollfd){STDIN_FILENO, POLLIN, 0};
    double end = INFINITY;
    for (char input[256]; now() < end;) {
        const double second = now() + 1;
        double next = second;
        for (int64_t i = 0; i < nodes; i++) {
            const double due = deliver(files[i], &queues[i], second);
            next = due < next ? due : next;
        }
        const double wait = next - now();
        const struct timespec limit = {0, wait > 0 ? (long)(wait < 0.999 ? wait * 1e9 : 999000000) : 0};
        ppoll(polled, (nfds_t)nodes + (end == INFINITY), &limit, NULL);
        for (int64_t i = 0; i < nodes; i++)
            if (polled[i].revents & POLLIN)
                receive(files[i], queues);
        if (end == INFINITY && polled[nodes].revents && read(STDIN_FILENO, input, sizeof input) <= 0)
            end = now() + (double)AFTERWARDS;
    }
}

int main(int argc, char **argv)
{
    int files[MAX_NODES];
    parse_options(argc, argv, program,
                  "network: emulates a network between namespaces until SIGTERM or the end of its input", options);
    for (int64_t i = 0; i < nodes; i++)
        files[i] = node_new(i);
    const struct sched_param first = {.sched_priority = 1};
    const bool soon = sched_setscheduler(0, SCHED_FIFO, &first) == 0;
    prctl(PR_SET_TIMERSLACK, 1);
    printf("pid=%d nodes=%lld rate_gbit=%g delay_us=%g real_time=%s\n", (int)getpid(), (long long)nodes, rate, delay,
           soon ? "yes" : "no");
    fflush(stdout);
    packets_new();
    forward(files);
    return EXIT_SUCCESS;
}
