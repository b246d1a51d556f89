"""Programs of clients of long-term memories over REST, as their documentation has them: written for
another server."""

BASE_URL = "http://localhost:8000"

PYTHON = '''
import requests
import json

BASE_URL = "http://localhost:8000"

def add_conversation_to_memory(messages, user_id):
    """Add a conversation to memory"""
    response = requests.post(
        f"{BASE_URL}/api/memories/",
        json={
            "messages": messages,
            "user_id": user_id
        }
    )
    return response.json()

def search_memories(query, user_id, limit=5):
    """Search for relevant memories"""
    response = requests.post(
        f"{BASE_URL}/api/memories/search/",
        json={
            "query": query,
            "user_id": user_id,
            "limit": limit
        }
    )
    return response.json()

def get_all_memories(user_id):
    """Get all memories for a user"""
    response = requests.get(f"{BASE_URL}/api/memories/{user_id}/")
    return response.json()

# Example usage
messages = [
    {"role": "user", "content": "I'm working on a Python project using FastAPI"},
    {"role": "assistant", "content": "Great! I'll remember that you're working with Python and FastAPI."}
]

# Add memories
result = add_conversation_to_memory(messages, user_id="developer_123")
print("Added:", result)

# Search memories
results = search_memories("What programming language do I use?", user_id="developer_123")
print("Search results:", results)

# Get all memories
all_memories = get_all_memories(user_id="developer_123")
print("All memories:", all_memories)
'''

JAVASCRIPT = """
const BASE_URL = "http://localhost:8000";

async function addConversationToMemory(messages, userId) {
    const response = await fetch(`${BASE_URL}/api/memories/`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ messages, user_id: userId })
    });
    return response.json();
}

async function searchMemories(query, userId, limit = 5) {
    const response = await fetch(`${BASE_URL}/api/memories/search/`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ query, user_id: userId, limit })
    });
    return response.json();
}

// Example usage
const messages = [
    { role: "user", content: "I prefer dark mode in all my applications" },
    { role: "assistant", content: "Noted! I'll remember your preference for dark mode." }
];

const result = await addConversationToMemory(messages, "user_456");
console.log("Added:", result);

const searchResults = await searchMemories("UI preferences", "user_456");
console.log("Search results:", searchResults);
"""

CURL = r"""
# Add memories
curl -X POST http://localhost:8000/api/memories/ \
  -H "Content-Type: application/json" \
  -d '{
    "messages": [
      {"role": "user", "content": "I am Alex and I love hiking"},
      {"role": "assistant", "content": "Nice to meet you Alex!"}
    ],
    "user_id": "alex"
  }'

# Search memories
curl -X POST http://localhost:8000/api/memories/search/ \
  -H "Content-Type: application/json" \
  -d '{
    "query": "outdoor activities",
    "user_id": "alex",
    "limit": 3
  }'

# Get all memories
curl http://localhost:8000/api/memories/alex/

# Delete a memory
curl -X DELETE "http://localhost:8000/api/memories/mem_1/?user_id=alex"
"""
