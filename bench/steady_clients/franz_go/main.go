// BOOTSTRAP TOPIC GROUP PARTITIONS: as ../steady.py, with franz-go in its default settings.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var saying sync.Mutex

func say(format string, values ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(strings.ReplaceAll(fmt.Sprintf(format, values...), "\n", " "))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func read(ctx context.Context, consumer *kgo.Client) {
	for ctx.Err() == nil {
		fetches := consumer.PollFetches(ctx)
		fetches.EachError(func(_ string, partition int32, err error) {
			if ctx.Err() == nil {
				say("error %d: %v", partition, err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) { say("read %s", record.Value) })
	}
}

func write(ctx context.Context, producer *kgo.Client, topic string, partitions int) {
	for number := 0; ctx.Err() == nil; number++ {
		record := &kgo.Record{Topic: topic, Partition: int32(number % partitions), Value: []byte(fmt.Sprint(number))}
		sent := time.Now().UnixMicro()
		producer.Produce(context.Background(), record, func(found *kgo.Record, err error) {
			if err != nil {
				say("failed %d %v", number, err)
			} else {
				say("acked %d %d %d %d %d", number, found.Partition, found.Offset, sent, time.Now().UnixMicro())
			}
		})
		if (number+1)%partitions == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func main() {
	topic, group := os.Args[2], os.Args[3]
	partitions, err := strconv.Atoi(os.Args[4])
	must(err)
	seeds := kgo.SeedBrokers(strings.Split(os.Args[1], ",")...)
	ctx, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	var reading sync.WaitGroup
	if group != "-" {
		consumer, err := kgo.NewClient(seeds, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		must(err)
		defer consumer.Close()
		reading.Add(1)
		go func() {
			defer reading.Done()
			read(ctx, consumer)
		}()
	}
	producer, err := kgo.NewClient(seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(err)
	write(ctx, producer, topic, partitions)
	must(producer.Flush(context.Background()))
	producer.Close()
	reading.Wait()
	say("done")
}
