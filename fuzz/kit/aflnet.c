/* Requests and states of ZooKeeper for AFLNet.
 *
 * Append this file to aflnet.c, declare both functions in aflnet.h, and let the option -P of
 * afl-fuzz.c and the protocols of aflnet-replay.c choose them. Seeds are what clients sent: the
 * files *.c2s in crates/zk-proto/tests/golden, or recordings of zk-explain --record.
 */

static unsigned int zookeeper_int(const unsigned char *bytes)
{
  return (unsigned int)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

/* Returns the length of the first frame with its prefix, or all bytes if they are no frame. */
static unsigned int zookeeper_frame(const unsigned char *bytes, unsigned int length)
{
  if (length < 4 || zookeeper_int(bytes) > length - 4) return length;
  return 4 + zookeeper_int(bytes);
}

/* One region for each frame. */
region_t *extract_requests_zookeeper(unsigned char *buf, unsigned int buf_size,
                                     unsigned int *region_count_ref)
{
  unsigned int count = 0, start = 0;
  region_t *regions = NULL;

  while (start < buf_size) {
    unsigned int length = zookeeper_frame(buf + start, buf_size - start);
    regions = (region_t *)ck_realloc(regions, (count + 1) * sizeof(region_t));
    regions[count].start_byte = start;
    regions[count].end_byte = start + length - 1;
    regions[count].state_sequence = NULL;
    regions[count].state_count = 0;
    count++;
    start += length;
  }
  *region_count_ref = count;
  return regions;
}

/* 0, then one state for each frame: 1 the handshake, 2 a watch event, 3 a reply without a body, 4
 * with a stat alone, 5 with another body, 6 bytes that are no reply, and above 100 an error: 201 is
 * -101, NO_NODE.
 */
unsigned int *extract_response_codes_zookeeper(unsigned char *buf, unsigned int buf_size,
                                               unsigned int *state_count_ref)
{
  unsigned int count = 1, start = 0;
  unsigned int *states = (unsigned int *)ck_alloc(sizeof(unsigned int));

  states[0] = 0;
  while (start < buf_size) {
    unsigned int length = zookeeper_frame(buf + start, buf_size - start);
    const unsigned char *frame = buf + start;
    unsigned int state = 6;

    if (start == 0) state = 1;
    else if (length >= 20) {
      int xid = (int)zookeeper_int(frame + 4), err = (int)zookeeper_int(frame + 16);
      if (xid == -1) state = 2;
      else if (err != 0) state = 100 + (err < 0 && err > -1000 ? -err : 1000);
      else state = length == 20 ? 3 : length == 88 ? 4 : 5;
    }
    states = (unsigned int *)ck_realloc(states, (count + 1) * sizeof(unsigned int));
    states[count++] = state;
    start += length;
  }
  *state_count_ref = count;
  return states;
}
