play.index([
{"name":"free","title":"A free lock","about":"One client, one round trip."},
{"name":"queue","title":"Three in a queue","about":"Three clients want the same lock, one after the other."},
{"name":"herd","title":"The herd and its cure","about":"Six clients, twice: with one watch for all, and with one each."},
{"name":"lost-create","title":"A create whose reply is lost","about":"Was it applied or not?"},
{"name":"server","title":"The holder's server dies","about":"The server of the holder fails. What of the lock?"},
{"name":"lease","title":"A holder that is cut off","about":"Messages are lost in both directions."},
{"name":"pause","title":"A pause and a late write","about":"A process stops between its check and its write."},
{"name":"readers","title":"Readers and a writer","about":"A queue in which some wait for nobody."},
{"name":"semaphore","title":"A semaphore","about":"Three permits, four clients."},
{"name":"renewal","title":"A session that is renewed","about":"What a waiter does when its session expires."}]);
