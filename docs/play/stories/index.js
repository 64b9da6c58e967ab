play.index([
{"name":"free","title":"A free lock","about":"One client, one round trip."},
{"name":"queue","title":"Three in a queue","about":"Who is next, and who wakes whom."},
{"name":"herd","title":"The herd and its cure","about":"Six clients, twice: with one watch for all, and with one each."},
{"name":"lost-create","title":"A create whose reply is lost","about":"Was it applied or not?"},
{"name":"server","title":"The holder's server dies","about":"The session moves, and the lock with it."},
{"name":"lease","title":"A holder that is cut off","about":"It must stop before the next one starts."},
{"name":"pause","title":"A pause and a late write","about":"Why a storage compares tokens."},
{"name":"readers","title":"Readers and a writer","about":"A queue in which some wait for nobody."},
{"name":"semaphore","title":"A semaphore","about":"Three permits, four clients."},
{"name":"renewal","title":"A session that is renewed","about":"What a waiter does when its session expires."}]);
